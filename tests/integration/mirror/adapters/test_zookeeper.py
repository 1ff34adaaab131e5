"""Sessions on a real server: lost, suspended, expired from outside, and their real timeout."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from kazoo.client import KazooClient

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.errors import Refused, SessionLost, Unreachable
from mirror.model.nodes import SessionState
from stack.ports import free_ports
from stack.zookeeper import ZooKeeperEnsemble, ZooKeeperServer
from tests.delaying import SlowPort
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.servers


class Client:
    """Session with all its reported states."""

    def __init__(self, address: str, session_timeout_seconds: float = 6.0) -> None:
        self.states: queue.SimpleQueue[SessionState] = queue.SimpleQueue()
        self.seen: list[SessionState] = []
        settings = ZooKeeperSettings(
            servers=address,
            root=f"/test-{uuid4().hex[:8]}",
            session_timeout_seconds=session_timeout_seconds,
            connect_timeout_seconds=PATIENCE_SECONDS,
        )
        self.nodes = ZooKeeper(settings, self.states.put)

    def until(self, state: SessionState, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the session has reported the state."""
        deadline = time.monotonic() + timeout_seconds
        while state not in self.seen:
            self.seen.append(self.states.get(timeout=max(0.01, deadline - time.monotonic())))

    def end_from_outside(self) -> None:
        """End the session on the server, as if it had expired."""
        twin = KazooClient(hosts=self.nodes._settings.servers, client_id=self.nodes._client.client_id)
        twin.start(timeout=PATIENCE_SECONDS)
        twin.stop()
        twin.close()


@pytest.fixture
def new_client() -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(address: str, **more: float) -> Client:
        made.append(Client(address, **more))
        made[-1].nodes.start()
        return made[-1]

    yield make
    for client in made:
        client.nodes.stop()


NewClient = Callable[..., Client]


def test_nobody_there_is_unreachable_and_leaves_nothing_running() -> None:
    nodes = ZooKeeper(ZooKeeperSettings(servers=f"127.0.0.1:{free_ports(1)[0]}", connect_timeout_seconds=1.0))
    with pytest.raises(Unreachable, match="headrace-dev stack up zookeeper"):
        nodes.start()
    nodes.stop()


def test_a_session_that_the_server_ended_is_lost_and_another_begins(
    zookeeper_server: ZooKeeperServer, new_client: NewClient
) -> None:
    client, observer = new_client(zookeeper_server.address), new_client(zookeeper_server.address)
    mine = client.nodes.create("/live", b"me", ephemeral=True)
    client.until(SessionState.CONNECTED)
    client.seen.clear()
    client.end_from_outside()
    client.until(SessionState.LOST)
    client.until(SessionState.CONNECTED)
    assert client.nodes.children("") == ()
    assert client.nodes.create(mine, b"again", ephemeral=True) == mine
    assert observer.nodes.is_connected


def test_while_the_server_is_away_requests_fail_and_the_session_goes_on_when_it_is_back(
    new_zookeeper: Callable[..., ZooKeeperServer], new_client: NewClient
) -> None:
    server = new_zookeeper()
    client = new_client(server.address, session_timeout_seconds=20.0)
    client.nodes.create("/live", b"me", ephemeral=True)
    before = client.nodes.last_contact()
    rings: list[None] = []
    client.nodes.read("/live", lambda: rings.append(None))
    server.kill()
    client.until(SessionState.SUSPENDED)
    wait_until(lambda: rings)
    client.seen.clear()
    silent_since = client.nodes.last_contact()
    assert silent_since >= before
    client.nodes._deadline = 0.5
    with pytest.raises(Unreachable):
        client.nodes.read("/live")
    assert client.nodes.last_contact() == silent_since
    server.start()
    client.nodes._deadline = 10.0
    client.until(SessionState.CONNECTED)
    assert SessionState.LOST not in client.seen
    assert client.nodes.read("/live").data == b"me"
    assert client.nodes.last_contact() > silent_since


def test_a_contact_is_made_while_a_caller_waits_for_answers_that_are_slow(
    zookeeper_server: ZooKeeperServer,
) -> None:
    contacts: list[float] = []

    def attend() -> None:
        nodes.beat()
        contacts.append(nodes.last_contact())

    def is_quick() -> bool:
        nodes.beat()
        return nodes.answer_seconds() < 1.2

    with SlowPort(free_ports(1)[0], zookeeper_server.address) as way:
        settings = ZooKeeperSettings(servers=way.here, root=f"/test-{uuid4().hex[:8]}")
        nodes = ZooKeeper(settings, while_waiting=attend)
        nodes.start()
        try:
            assert nodes.answer_seconds() == 0.0
            with way.delayed(0.6):
                for _ in range(3):
                    assert nodes.children("") == ()
            assert len(set(contacts)) >= 3, "only as many contacts as awaited responses"
            assert nodes.answer_seconds() >= 1.2
            wait_until(is_quick, "responses are quick again")
        finally:
            nodes.stop()


def test_every_answer_is_a_contact_also_a_no(
    zookeeper_server: ZooKeeperServer, new_client: NewClient
) -> None:
    nodes = new_client(zookeeper_server.address).nodes
    nodes.create("/a")
    for ask in (
        lambda: nodes.read("/a"),
        lambda: nodes.children("/none"),
        lambda: nodes.delete("/none"),
        lambda: nodes.write("/a", b"", 0),
    ):
        before = time.monotonic()
        ask()
        assert before <= nodes.last_contact() <= time.monotonic()


@pytest.mark.parametrize(("wanted", "granted"), [(2.0, 2.0), (60.0, 3.0)])
def test_the_session_lives_as_long_as_the_server_grants(
    tmp_path: Path, wanted: float, granted: float
) -> None:
    server = ZooKeeperServer(
        "short", tmp_path / "short", free_ports(1)[0], settings={"maxSessionTimeout": 3000}
    )
    server.start()
    client = Client(server.address, session_timeout_seconds=wanted)
    try:
        client.nodes.start()
        client.nodes.create("/a")
        assert client.nodes.session_timeout_seconds() == pytest.approx(granted)
    finally:
        client.nodes.stop()
        server.kill()


def test_what_zookeeper_refuses_is_not_asked_again(
    zookeeper_server: ZooKeeperServer, new_client: NewClient
) -> None:
    nodes = new_client(zookeeper_server.address).nodes
    nodes.create("/live", ephemeral=True)
    with pytest.raises(Refused, match="/live/below"):
        nodes.create("/live/below")


def test_after_the_stop_everything_is_lost(zookeeper_server: ZooKeeperServer, new_client: NewClient) -> None:
    client = new_client(zookeeper_server.address)
    client.nodes.stop()
    client.nodes.stop()
    client.until(SessionState.LOST)
    with pytest.raises(SessionLost):
        client.nodes.read("/a")


@pytest.mark.deep
def test_a_session_leaves_a_frozen_server_before_it_ends(tmp_path: Path, new_client: NewClient) -> None:
    """kazoo takes every request that it sends for a sign of life, and would stay until the server is back."""
    ensemble = ZooKeeperEnsemble("frozen", tmp_path / "frozen")
    try:
        ensemble.start()
        client = new_client(ensemble.address, session_timeout_seconds=20.0)
        client.nodes.create("/live", b"me", ephemeral=True)
        frozen = _server_of(ensemble, client)
        frozen.suspend()

        def has_answered() -> bool:
            client.nodes.beat()
            return client.nodes.last_contact() > since

        since = time.monotonic()
        wait_until(has_answered, "another server answers")
        assert _server_of(ensemble, client) is not frozen
        assert client.nodes.read("/live").data == b"me"
        client.until(SessionState.SUSPENDED)
        assert SessionState.LOST not in client.seen
    finally:
        ensemble.kill()


def _server_of(ensemble: ZooKeeperEnsemble, client: Client) -> ZooKeeperServer:
    port = client.nodes._client._connection._socket.getpeername()[1]
    return next(server for server in ensemble.servers if server.port == port)
