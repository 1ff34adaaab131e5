"""ZooKeeper returns with older data than a session has seen."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.model.nodes import SessionState
from stack.zookeeper import ZooKeeperServer
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.servers, pytest.mark.deep]


def test_a_session_that_is_ahead_of_the_servers_is_replaced(
    new_zookeeper: Callable[..., ZooKeeperServer],
) -> None:
    server, states = new_zookeeper(), list[SessionState]()
    settings = ZooKeeperSettings(
        servers=server.address,
        root="/older",
        session_timeout_seconds=2.0,
        connect_timeout_seconds=PATIENCE_SECONDS,
    )
    nodes = ZooKeeper(settings, states.append)
    nodes.start()
    try:
        for number in range(50):
            nodes.create(f"/lost/{number}")
        server.kill()
        shutil.rmtree(server.folder / "data")
        server.start()
        wait_until(lambda: SessionState.LOST in states)
        wait_until(lambda: states[-1] is SessionState.CONNECTED)
        nodes.create("/again")
        assert nodes.children("") == ("again",)
    finally:
        nodes.stop()
