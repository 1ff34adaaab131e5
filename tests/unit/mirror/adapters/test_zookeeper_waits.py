"""Test our replacement of kazoo's `select` against the original."""

from __future__ import annotations

import contextlib
import inspect
import socket
from collections.abc import Callable, Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.utils import selector_select

from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.adapters.zookeeper_waits import Ready, ready

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
    assert ZooKeeper(ZooKeeperSettings())._client.handler.select is ready
