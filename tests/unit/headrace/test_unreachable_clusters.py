"""Test that commands fail at once if no broker of a cluster responds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from headrace.clusters.adhoc import reach
from headrace.console.client import RestClient
from headrace.dr.state_store import PairStateStore
from mirror.errors import Unreachable
from mirror.jobs.dr.operation import PairState
from mirror.model.identifiers import ClusterRef
from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Delay, Drop, Edit
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.node_store import FakeZooKeeper
from tests.fakes.site import Site
from tests.unit.headrace.conftest import Headrace, Write

SOURCE, DESTINATION = ClusterRef("source"), ClusterRef("destination")
METADATA: Final = 3
CLOSED: Final = "127.0.0.1:1"
"""Address at which nothing listens."""
SETTINGS: Final = f"""
[clusters.source]
bootstrap_servers = "{CLOSED}"
[clusters.destination]
bootstrap_servers = "{CLOSED}"
[mirror.copying]
request_timeout_seconds = 1000000
[dr.pair]
primary = "source"
standby = "destination"
datastreams = ["orders"]
"""
SIDES: Final = ("--source", "source", "--destination", "destination")


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    with closing(MirroredFakes(2, options={"request_timeout_seconds": 1_000_000.0})) as rig:
        yield rig


@pytest.mark.parametrize(
    "command",
    [
        ("progress", "--destination", "destination", "--state", "s"),
        ("verify", *SIDES, "--topics", "t"),
        ("translate", *SIDES, "--state", "s", "--group", "g"),
        ("translate", *SIDES, "--state", "s", "--group", "g", "--back"),
        ("copy", *SIDES, "--topics", "t", "--until-end"),
        ("copy", "--source", "source", "--destination", "file:FOLDER", "--topics", "t", "--until-end"),
        ("audit", "windows"),
        ("audit", "orders"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_a_command_names_the_address_that_refuses_connections(
    headrace: Headrace, write: Write, site: Site, tmp_path: Path, command: tuple[str, ...]
) -> None:
    site.create("orders")
    words = (word.replace("FOLDER", str(tmp_path)) for word in command)
    answer = headrace(*words, "--config", str(write(SETTINGS)))
    assert answer.code == 1
    assert f"cannot connect to {CLOSED}: Connection refused: check that the broker is running" in answer.err


def test_the_check_of_a_pair_reports_both_clusters(headrace: Headrace, write: Write, site: Site) -> None:
    answer = headrace("dr", "check", "pair", "--json", "--config", str(write(SETTINGS)))
    assert answer.code == 1
    items = [(item["item"], item["grade"]) for item in json.loads(answer.out)["items"]]
    assert [item for item in items if item[0] == "clusters"] == 2 * [("clusters", "fail")]
    assert "topics" not in dict(items)


@pytest.mark.parametrize("down", [1, 2])
def test_one_live_broker_is_enough(fakes: MirroredFakes, down: int) -> None:
    for cluster in (fakes.source, fakes.target):
        cluster.take_down(down)
    reach(fakes.context, SOURCE, DESTINATION)
    reach(fakes.context, SOURCE, DESTINATION)  # again, on the same connections


def test_a_silent_cluster_fails_before_a_request_times_out(fakes: MirroredFakes) -> None:
    for node in (1, 2):
        fakes.target.freeze(node)
    with pytest.raises(Unreachable, match="no response within 5 s"):
        reach(fakes.context, SOURCE, DESTINATION)


def advertise(cluster: FakeCluster, *ports: int) -> None:
    """Let the brokers of a cluster advertise these ports."""

    def change(answer: Any) -> None:
        for broker, port in zip(answer.brokers, ports, strict=True):
            broker.port = port

    cluster.faults.plant(METADATA, Edit(change), times=None)


def test_advertised_listeners_that_refuse_connections_are_named(fakes: MirroredFakes) -> None:
    advertise(fakes.target, 1, 2)
    before = fakes.clock.monotonic()
    for _ in range(2):
        with pytest.raises(Unreachable) as failed:
            reach(fakes.context, SOURCE, DESTINATION)
        assert "destination responds at 127.0.0.1:" in failed.value.message
        assert "brokers advertise (127.0.0.1:1, 127.0.0.1:2): cannot connect to" in failed.value.message
        assert "advertised.listeners" in str(failed.value)
    assert fakes.clock.monotonic() - before <= 10.0


def test_advertised_listeners_that_do_not_respond_are_named_within_five_seconds(fakes: MirroredFakes) -> None:
    ports = [broker.port for broker in fakes.source.brokers.values()]
    for node in (1, 2):
        fakes.source.freeze(node)
    advertise(fakes.target, *ports)
    before, names = fakes.clock.monotonic(), ", ".join(f"127.0.0.1:{port}" for port in ports)
    with pytest.raises(Unreachable, match=f"{names}: no response within 5 s"):
        reach(fakes.context, DESTINATION)
    assert fakes.clock.monotonic() - before <= 5.1


def test_a_cluster_that_lists_no_brokers_in_time_is_silent(fakes: MirroredFakes) -> None:
    fakes.target.faults.plant(METADATA, Delay(60.0), times=None)
    with pytest.raises(Unreachable, match="destination accepts connections but does not list its brokers"):
        reach(fakes.context, DESTINATION)


def test_a_connection_that_breaks_once_is_no_failure(fakes: MirroredFakes) -> None:
    fakes.target.faults.plant(METADATA, Drop())
    reach(fakes.context, DESTINATION)


def test_one_advertised_listener_is_enough(fakes: MirroredFakes) -> None:
    advertise(fakes.target, 1, [broker.port for broker in fakes.target.brokers.values()][1])
    reach(fakes.context, SOURCE, DESTINATION)


def test_a_pair_is_read_from_the_live_cluster(fakes: MirroredFakes) -> None:
    for node in (1, 2):
        fakes.source.take_down(node)
    notes = list[str]()
    fresh = PairState(name="p", active="source", datastreams={"orders": "orders"})
    clusters = {"source": SOURCE, "destination": DESTINATION}
    assert (
        PairStateStore(FakeZooKeeper().session(), fakes.context, clusters, fresh, notes.append).read()
        == fresh
    )
    assert len(notes) == 1
    assert "on source: " in notes[0]


def test_a_service_that_accepts_no_connection_fails_before_its_requests_time_out() -> None:
    timeouts = list[dict[str, float]]()

    def note(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"])
        return httpx.Response(200, json={})

    with closing(RestClient("one", timeout_seconds=30.0)) as client:
        client._client._transport = httpx.MockTransport(note)
        client.get("/v1/health")
    assert timeouts[0]["connect"] < timeouts[0]["read"]
