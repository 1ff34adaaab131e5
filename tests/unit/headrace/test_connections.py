"""Test connections that occupy a listener: incomplete heads and bodies, and too many at once."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from api.access.listener_settings import LimitSettings
from headrace.process.connections import RESERVE
from headrace.process.tls import CertifiedProtocol, protocol_of

LIMITS = LimitSettings(
    head_seconds=10,
    body_seconds=30,
    answer_seconds=60,
    unread_bytes=1_000,
    connections=3,
    connections_of_one_address=2,
)
HEAD = b"GET /v1/plan HTTP/1.1\r\nHost: test\r\n\r\n"
POST = b"POST /v1/datastreams HTTP/1.1\r\nHost: test\r\nContent-Length: 100000000\r\n\r\n"


class Timer:
    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at, self.call, self.is_cancelled = at, call, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Call:
    """A call that never ends."""

    def add_done_callback(self, call: Callable[[Any], None]) -> None:
        pass


class Loop:
    """Fake event loop: the test advances its time, and it runs no application."""

    def __init__(self) -> None:
        self.now, self.timers, self.calls = 0.0, list[Timer](), 0

    def call_later(self, seconds: float, call: Callable[[], None]) -> Timer:
        self.timers.append(Timer(self.now + seconds, call))
        return self.timers[-1]

    def create_task(self, call: Coroutine[Any, Any, None]) -> Call:
        call.close()
        self.calls += 1
        return Call()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for timer in [one for one in self.timers if one.at <= self.now]:
            self.timers.remove(timer)
            if not timer.is_cancelled:
                timer.call()


class Transport:
    """Fake transport that records the bytes written and whether it was closed."""

    def __init__(self, address: str) -> None:
        self.address, self.written, self.is_closed = address, b"", False
        self.is_aborted, self.unread = False, 0

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": (self.address, 1), "sockname": ("127.0.0.1", 2)}.get(name, default)

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_aborted = True

    def set_write_buffer_limits(self, high: int, low: int) -> None:
        self.limits = (high, low)

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class Listener:
    """A listener that accepts fake connections."""

    def __init__(self) -> None:
        self.kind, self.loop, self.state = protocol_of(LIMITS), Loop(), ServerState()
        self.config = uvicorn.Config(answer, log_config=None, ws="none", lifespan="off")

    def connect(self, address: str = "10.0.0.1") -> tuple[CertifiedProtocol, Transport]:
        transport = Transport(address)
        made = self.kind(self.config, self.state, {}, _loop=self.loop)
        made.connection_made(transport)  # type: ignore[arg-type]
        return made, transport


async def answer(scope: object, receive: object, send: object) -> None:
    raise AssertionError("application called")


@pytest.fixture
def listener() -> Listener:
    return Listener()


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: test\r\nX-A: "])
def test_a_head_that_does_not_come_is_given_up(listener: Listener, sent: bytes) -> None:
    protocol, transport = listener.connect()
    if sent:
        protocol.data_received(sent)
    for _ in range(9):
        listener.loop.pass_time(1)
        if sent:
            protocol.data_received(b"x")
    assert not transport.is_closed
    listener.loop.pass_time(1)
    assert (transport.is_closed, b" 408 " in transport.written.splitlines()[0]) == (True, True)
    assert listener.loop.calls == 0
    protocol.data_received(HEAD)
    assert listener.loop.calls == 0


def test_a_body_that_does_not_come_is_given_up(listener: Listener) -> None:
    protocol, transport = listener.connect()
    protocol.data_received(POST)
    assert listener.loop.calls == 1
    for _ in range(31):
        listener.loop.pass_time(1)
        protocol.data_received(b"x")
    assert not transport.is_closed
    listener.loop.pass_time(1)
    assert transport.is_closed


def test_a_call_that_is_here_has_no_deadline(listener: Listener) -> None:
    """Event streams stay open for hours."""
    protocol, transport = listener.connect()
    protocol.data_received(HEAD)
    listener.loop.pass_time(100_000)
    assert (transport.is_closed, listener.loop.calls) == (False, 1)


def test_a_body_in_parts_ends_its_deadline(listener: Listener) -> None:
    protocol, transport = listener.connect()
    protocol.data_received(POST.replace(b"100000000", b"4"))
    protocol.data_received(b"{}")
    listener.loop.pass_time(29)
    protocol.data_received(b"  ")
    listener.loop.pass_time(1_000)
    assert not transport.is_closed


def unread(listener: Listener, size: int, address: str = "10.0.0.1") -> tuple[CertifiedProtocol, Transport]:
    """Return a connection with `size` bytes that its caller does not read."""
    protocol, transport = listener.connect(address)
    protocol.data_received(HEAD)
    transport.unread = size
    protocol.pause_writing()
    return protocol, transport


def test_a_caller_that_does_not_read_is_given_up(listener: Listener) -> None:
    protocol, transport = unread(listener, 1)
    assert transport.limits == (1, 0)
    listener.loop.pass_time(59)
    assert not transport.is_aborted
    listener.loop.pass_time(1)
    assert transport.is_aborted
    assert protocol.flow.write_paused  # until the transport reports the connection as lost
    protocol.connection_lost(None)
    assert not protocol.flow.write_paused


def test_a_caller_that_reads_in_the_end_is_answered(listener: Listener) -> None:
    """Event streams stay open for hours, and each event is read on its own."""
    protocol, transport = unread(listener, 1)
    for _ in range(10):
        listener.loop.pass_time(59)
        protocol.resume_writing()
        assert not protocol.flow.write_paused
        protocol.pause_writing()
    protocol.resume_writing()
    listener.loop.pass_time(1_000)
    assert not transport.is_aborted
    assert listener.kind.unread == {}


def test_of_too_many_bytes_that_are_not_read_the_oldest_go(listener: Listener) -> None:
    first, second = unread(listener, 600), unread(listener, 400)
    assert not first[1].is_aborted
    third = unread(listener, 300, "10.0.0.2")
    assert [one.is_aborted for _, one in (first, second, third)] == [True, False, False]
    second[0].connection_lost(None)
    third[1].unread = 5_000  # a single response may be large
    third[0].pause_writing()
    assert not third[1].is_aborted
    assert list(listener.kind.unread) == [third[0]]


def test_the_oldest_silent_connection_of_an_address_gives_way(listener: Listener) -> None:
    mine = [listener.connect() for _ in range(3)]
    assert [one.is_closed for _, one in mine] == [True, False, False]
    assert b" 503 " in mine[0][1].written.splitlines()[0]
    mine[0][0].data_received(HEAD)
    assert listener.loop.calls == 0
    mine[0][0].connection_lost(None)
    other, late = listener.connect("10.0.0.2"), listener.connect("10.0.0.3")
    assert (other[1].is_closed, late[1].is_closed) == (False, False)
    assert [one.is_closed for _, one in mine] == [True, True, False]
    mine[2][0].data_received(HEAD)
    assert listener.loop.calls == 1


def test_silent_connections_of_any_number_leave_room(listener: Listener) -> None:
    """The limit applies even if connections are accepted before the end of others is noticed."""
    for number in range(1_500):
        listener.connect(f"10.0.0.{number % 250}")
    asking, transport = listener.connect("10.1.0.1")
    asking.data_received(HEAD)
    assert (listener.loop.calls, transport.is_closed) == (1, False)
    assert asking.app is listener.config.loaded_app


def busy(listener: Listener, address: str) -> tuple[CertifiedProtocol, Transport]:
    protocol, transport = listener.connect(address)
    protocol.data_received(HEAD)
    return protocol, transport


def test_where_all_connections_are_busy_there_is_a_reserve(listener: Listener) -> None:
    held = [busy(listener, f"10.0.0.{number}") for number in range(LIMITS.connections)]
    reserve = [busy(listener, f"10.0.1.{number}") for number in range(RESERVE)]
    late, transport = listener.connect("10.1.0.1")
    assert b" 503 " in transport.written.splitlines()[0]
    assert not any(one.is_closed for _, one in (*held, *reserve))
    assert all(one.app is not held[0][0].app for one, _ in reserve)
    late.connection_lost(None)
    held[0][0].connection_lost(None)
    assert not busy(listener, "10.1.0.2")[1].is_closed


def test_what_ended_counts_no_more(listener: Listener) -> None:
    for _ in range(10):
        protocol, transport = listener.connect()
        assert not transport.is_closed
        protocol.connection_lost(None)
    assert listener.kind.by_address == {}
    assert listener.state.connections == set()
    listener.loop.pass_time(1_000)


def test_listeners_count_apart(listener: Listener) -> None:
    for _ in range(2):
        listener.connect()
    assert not Listener().connect()[1].is_closed
