"""Test requests that are sent without their end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.client.connection import Connection
from mirror.client.event_loop import Loop
from mirror.client.request import Request, split_end
from mirror.client.transport import Transport
from mirror.errors import HeadraceError
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool
from tests.fakes.clock import ManualClock

BODY = b"a" * 90 + b"b" * 40


@given(st.lists(st.binary(max_size=10), max_size=6), st.integers(0, 70))
def test_the_two_parts_are_the_whole(buffers: list[bytes], size: int) -> None:
    front, end = split_end(buffers, size)
    whole = b"".join(buffers)
    assert b"".join(front) + b"".join(end) == whole
    assert len(b"".join(end)) == min(size, len(whole))


class Peer:
    """A connection and the other end of its socket."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        ours.setblocking(False)
        self.socket.setblocking(False)
        self.loop = Loop(ManualClock())
        pool = BufferPool(2**16, ByteBudget(2**20))
        self.connection = Connection(self.loop, Transport(ours), pool, "broker", "test")
        self.failures: list[HeadraceError] = []

    def request(self, *, is_incomplete: bool) -> Request:
        body = [memoryview(BODY)[:-64]] if is_incomplete else [BODY]
        return Request(
            0,
            9,
            False,
            body,
            len(BODY),
            30.0,
            lambda *_: None,
            self.failures.append,
            is_incomplete=is_incomplete,
        )

    def received(self) -> bytes:
        try:
            return self.socket.recv(2**16)
        except BlockingIOError:
            return b""


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.connection.close()
    made.socket.close()
    made.loop.close()


def test_a_broker_gets_the_whole_size_first_and_the_end_last(peer: Peer) -> None:
    request = peer.request(is_incomplete=True)
    peer.connection.send(request)
    begun = peer.received()
    assert begun.endswith(BODY[:-64])
    assert peer.connection.is_incomplete
    assert peer.connection.unanswered_since == inf
    peer.connection.complete(request, [BODY[-64:]])
    whole = begun + peer.received()
    assert whole.endswith(BODY)
    assert int.from_bytes(whole[:4]) == len(whole) - 4
    assert not peer.connection.is_incomplete
    assert peer.connection.unanswered_since < inf


def test_nothing_is_sent_inside_an_incomplete_request(peer: Peer) -> None:
    peer.connection.send(peer.request(is_incomplete=True))
    with pytest.raises(AssertionError):
        peer.connection.send(peer.request(is_incomplete=False))


def test_a_request_completed_during_an_authentication_is_sent_whole_after_it(peer: Peer) -> None:
    request = peer.request(is_incomplete=True)
    peer.connection.hold()
    peer.connection.send(request)
    peer.connection.complete(request, [BODY[-64:]])
    assert peer.received() == b""
    peer.connection.release()
    assert peer.received().endswith(BODY)
    assert not peer.connection.is_incomplete


def test_the_end_of_a_request_may_follow_while_others_wait_for_an_authentication(peer: Peer) -> None:
    first, second = (peer.request(is_incomplete=True) for _ in range(2))
    peer.connection.send(first)
    peer.connection.hold()
    peer.connection.send(second)
    peer.connection.complete(second, [BODY[-64:]])
    assert peer.received().endswith(BODY[:-64])
    peer.connection.complete(first, [BODY[-64:]])
    assert peer.received() == BODY[-64:]
    peer.connection.release()
    assert not peer.connection.is_incomplete
    assert peer.received().endswith(BODY)


def test_an_incomplete_request_fails_with_its_connection(peer: Peer) -> None:
    request = peer.request(is_incomplete=True)
    peer.connection.send(request)
    peer.connection.close()
    peer.connection.complete(request, [BODY[-64:]])
    assert len(peer.failures) == 1
