"""Surveys of real ZooKeeper servers: standalone, without quorum, and with few allowed commands."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper_survey import survey_servers
from stack.ports import free_ports
from stack.zookeeper import Member, ZooKeeperServer
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.servers, pytest.mark.deep]


def test_a_server_says_its_version_and_what_it_keeps(zookeeper_server: ZooKeeperServer) -> None:
    (facts,) = survey_servers(ZooKeeperSettings(servers=zookeeper_server.address), PATIENCE_SECONDS)
    assert (facts.problem, facts.mode, facts.address) == ("", "standalone", zookeeper_server.address)
    assert facts.release.split(".")[0] == "3"
    assert facts.nodes
    assert facts.snapshot_bytes is not None
    assert facts.log_bytes is not None


def test_a_port_where_nobody_listens_or_answers_is_named_beside_a_server(
    zookeeper_server: ZooKeeperServer,
) -> None:
    (free,) = free_ports(1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        servers = f"{zookeeper_server.address},127.0.0.1:{free},127.0.0.1:{port}"
        found = survey_servers(ZooKeeperSettings(servers=servers), 1.0)
    problems = {one.address: one.problem for one in found}
    assert problems[zookeeper_server.address] == ""
    assert "refused" in problems[f"127.0.0.1:{free}"]
    assert "timed out" in problems[f"127.0.0.1:{port}"]


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[ZooKeeperServer]:
    """Return one of an ensemble of three whose other members are down; it allows only `srvr`."""
    ports = free_ports(9)
    members = [Member(*ports[first : first + 3]) for first in (0, 3, 6)]
    server = ZooKeeperServer(
        "lonely",
        tmp_path / "lonely",
        members[0].client,
        members=members,
        settings={"4lw.commands.whitelist": "srvr"},
    )
    yield server
    server.kill()
    server.wipe()


def test_a_server_without_its_ensemble_serves_nobody(lonely: ZooKeeperServer) -> None:
    lonely.launch()
    settings = ZooKeeperSettings(servers=lonely.address)
    wait_until(lambda: not survey_servers(settings, PATIENCE_SECONDS)[0].problem, "the server listens")
    (facts,) = survey_servers(settings, PATIENCE_SECONDS)
    assert not facts.is_serving
    assert facts.release == ""


def test_a_word_that_is_not_allowed_leaves_the_sizes_unknown(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    server = ZooKeeperServer(
        "narrow", tmp_path / "narrow", port, settings={"4lw.commands.whitelist": "srvr, ruok"}
    )
    try:
        server.start()
        (facts,) = survey_servers(ZooKeeperSettings(servers=server.address), PATIENCE_SECONDS)
    finally:
        server.kill()
        server.wipe()
    assert facts.release
    assert (facts.snapshot_bytes, facts.log_bytes) == (None, None)
