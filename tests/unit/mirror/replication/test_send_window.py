"""Detection of a broker whose window limits a connection."""

from __future__ import annotations

import socket
import struct
from typing import cast

import pytest

from mirror.client.transport import TcpInfo, Transport
from mirror.replication.channels.send_window import SendWindow

WINDOW = 125_000
ROUND_TRIP = 0.1


class KernelSocket:
    """A socket whose kernel returns these bytes of `struct tcp_info`."""

    def __init__(self, info: bytes) -> None:
        self.info = info

    def getsockopt(self, _level: int, _option: int, size: int) -> bytes:
        return self.info[:size]


def read_by(kernel: bytearray) -> TcpInfo:
    return Transport(cast("socket.socket", KernelSocket(bytes(kernel)))).tcp_info()


def counters(busy_seconds: float, acked_bytes: int, window_bytes: int) -> TcpInfo:
    return TcpInfo(busy_time=round(busy_seconds * 1e6), acked_bytes=acked_bytes, window_bytes=window_bytes)


def is_limited(busy: float, carried: float, window: int = WINDOW, seconds: float = 10.0) -> bool:
    """Return the verdict on a connection that has data for the share `busy` of the time, and then carries the
    share `carried` of the window per round trip."""
    found, verdict = SendWindow(), False
    for step in range(round(seconds / ROUND_TRIP)):
        info = counters(step * ROUND_TRIP * busy, round(step * busy * carried * window), window)
        verdict |= found.note(info, step * ROUND_TRIP, ROUND_TRIP)
    return verdict


@pytest.mark.parametrize(
    ("busy", "carried", "expected"),
    [(1.0, 0.95, True), (1.0, 0.1, False), (0.1, 1.0, False), (0.0, 0.0, False), (0.8, 0.8, True)],
)
def test_a_connection_that_fills_the_window_while_data_waits_is_limited(
    busy: float, carried: float, expected: bool
) -> None:
    assert is_limited(busy, carried) is expected


def test_a_window_that_opens_within_some_round_trips_limits_nothing() -> None:
    """The kernel offers twice what it has received in the last round trip, up to its limit."""
    window, acked, offered, found = SendWindow(), 0, 64_000, False
    for step in range(100):
        found |= window.note(counters(step * ROUND_TRIP, acked, offered), step * ROUND_TRIP, ROUND_TRIP)
        received = min(offered, 1_000_000)
        acked, offered = acked + received, max(offered, 2 * received)
    assert not found


def test_a_window_that_closes_for_a_moment_does_not_look_full() -> None:
    window, found = SendWindow(), False
    for step in range(100):
        offered = WINDOW if step % 2 else WINDOW // 4
        info = counters(step * ROUND_TRIP, step * WINDOW // 3, offered)
        found |= window.note(info, step * ROUND_TRIP, ROUND_TRIP)
    assert not found


def test_the_figures_of_linux_are_found() -> None:
    """As read after 8 s from a connection that one window limited all the time."""
    kernel = bytearray(240)
    kernel[2] = 3
    struct.pack_into("=Q", kernel, 120, 9_437_745)
    struct.pack_into("=I", kernel, 148, 100_142)
    struct.pack_into("=QQ", kernel, 168, 8_024_000, 2_484_000)
    struct.pack_into("=I", kernel, 228, 126_560)
    info, window = read_by(kernel), SendWindow()
    assert info == TcpInfo(3, 9_437_745, 100_142, 8_024_000, 126_560)
    assert read_by(kernel[:192]) == info._replace(window_bytes=0), "of a kernel before Linux 5.4"
    window.note(TcpInfo(), 0.0, 0.100142)
    assert window.note(info, 8.02, 0.100142)


def test_unknown_figures_say_nothing() -> None:
    window = SendWindow()
    assert not any(window.note(TcpInfo(), step * 0.1, 0.1) for step in range(100))
