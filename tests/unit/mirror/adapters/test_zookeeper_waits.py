"""Test our replacement of kazoo's `select` against the original."""

from __future__ import annotations

import contextlib
import inspect
import socket
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.utils import selector_select

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.adapters.zookeeper_waits import Ready, ServerWatch, ready

CONNECTION = type(KazooClient()._connection)
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair()
    one.setblocking(False)
    with one, other:
        yield one, other


def _nothing(_: Pair) -> None:
    pass


def _sent(pair: Pair) -> None:
    pair[1].send(b"x")


def _full(pair: Pair) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            pair[0].send(b"x" * 65_536)


def _closed_there(pair: Pair) -> None:
    pair[1].close()


def _half_closed_there(pair: Pair) -> None:
    pair[1].shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("happened", [_nothing, _sent, _full, _closed_there, _half_closed_there])
def test_what_is_ready_is_what_kazoo_finds_ready(happened: Callable[[Pair], None], pair: Pair) -> None:
    happened(pair)
    one, other = pair[0], pair[0].dup()
    with other:
        for readers, writers in (([one], []), ([], [one]), ([one, other], []), ([one], [other]), ([], [])):
            found: Ready = selector_select(readers, writers, [], 0)
            assert ready(readers, writers, [], 0) == found, (readers, writers)


def test_it_waits_until_something_is_ready_or_the_time_is_over(pair: Pair) -> None:
    assert ready([pair[0]], [], [], 0.001) == ([], [], [])
    pair[1].send(b"x")
    assert ready([pair[0]], [], [], None) == ([pair[0]], [], [])
    assert ready([pair[0]], [pair[0]], [], 60) == ([pair[0]], [pair[0]], [])


def test_kazoo_waits_through_its_handler_and_for_nothing_else() -> None:
    source = inspect.getsource(CONNECTION)
    assert source.count("self.handler.select(") == source.count("select(") == 3
    client = ZooKeeper(ZooKeeperSettings())._client
    assert isinstance(client.handler.select.__self__, ServerWatch)


class Watched:
    """A client of kazoo that never connects: its sockets are pairs, its server the other end of one."""

    def __init__(self, servers: str, session_seconds: float, stack: contextlib.ExitStack) -> None:
        self.client = KazooClient(hosts=servers)
        self.here, self.server = (stack.enter_context(one) for one in socket.socketpair())
        self.queue, self.queued = (stack.enter_context(one) for one in socket.socketpair())
        self.client._connection._socket = self.here
        self.watch = ServerWatch(self.client, lambda: session_seconds)

    def wait(self, timeout: float) -> Ready:
        return self.watch.select([self.here, self.queue], [], [], timeout)

    def request(self) -> None:
        self.client._pending.append(())  # type: ignore[attr-defined]


NewWatched = Callable[..., Watched]


@pytest.fixture
def new_watched() -> Iterator[NewWatched]:
    with contextlib.ExitStack() as stack:
        yield lambda servers="one:1,two:2", session_seconds=0.05: Watched(servers, session_seconds, stack)


@pytest.mark.parametrize("servers", ["one:1", "one:1,two:2"])
def test_a_server_that_owes_a_response_is_left_however_busy_its_client_is(
    new_watched: NewWatched, servers: str
) -> None:
    watched = new_watched(servers)
    watched.request()
    watched.queued.send(b"x")  # there is always another request to send
    with pytest.raises(ConnectionDropped):
        list(iter(lambda: watched.wait(60), ([], [], [])))


def test_a_missing_ping_counts_as_well(new_watched: NewWatched) -> None:
    watched = new_watched()
    watched.client._connection.ping_outstanding.set()
    with pytest.raises(ConnectionDropped):
        watched.wait(60)


def test_a_server_that_owes_nothing_may_be_silent(new_watched: NewWatched) -> None:
    watched = new_watched()
    assert watched.wait(0.2) == ([], [], [])
    watched.request()
    watched.server.send(b"x")
    assert watched.wait(60) == ([watched.here], [], [])


def test_a_response_that_came_while_we_were_frozen_is_read(new_watched: NewWatched) -> None:
    watched = new_watched(session_seconds=1e-9)
    watched.request()
    watched.server.send(b"x")
    for _ in range(3):
        assert watched.wait(60) == ([watched.here], [], [])


def test_servers_that_did_not_respond_are_tried_last(new_watched: NewWatched) -> None:
    watched = new_watched()
    servers = [(name, name, number) for number, name in enumerate("abc")]
    made: list[socket.socket] = []

    def create(**_: object) -> socket.socket:
        if not made:
            raise OSError
        return made.pop()

    watched.client.handler.create_connection = create
    watched.client._connection._expand_client_hosts = lambda: servers
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        watched.here = stack.enter_context(socket.create_connection(listener.getsockname()))
        watched.client._connection._socket = watched.here
        watched.server, _ = listener.accept()
        stack.enter_context(watched.server)
        watched.watch.install()
        connect = watched.client.handler.create_connection
        order = watched.client._connection._expand_client_hosts
        with pytest.raises(OSError):
            connect(address=("a", 0), timeout=1.0)
        assert order() == [servers[1], servers[2], servers[0]]
        made.append(watched.here)
        connect(address=("b", 1), timeout=1.0)
        assert order() == [servers[2], servers[0], servers[1]]
        watched.server.send(b"x")
        assert watched.wait(60) == ([watched.here], [], [])
        assert order() == [servers[1], servers[2], servers[0]], "b has responded"
