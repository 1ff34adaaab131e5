"""Detection of a broker whose window limits a connection."""

from __future__ import annotations

import struct

import pytest

from mirror.replication.channels.send_window import INFO_BYTES, SendLimits, SendWindow

WINDOW = 125_000
ROUND_TRIP = 0.1


def is_limited(busy: float, carried: float, window: int = WINDOW, seconds: float = 10.0) -> bool:
    """Return the verdict on a connection that has data for the share `busy` of the time, and then carries the
    share `carried` of the window per round trip."""
    found, verdict = SendWindow(), False
    for step in range(round(seconds / ROUND_TRIP)):
        limits = SendLimits(step * ROUND_TRIP * busy, round(step * busy * carried * window), window)
        verdict |= found.note(limits, step * ROUND_TRIP, ROUND_TRIP)
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
        found |= window.note(SendLimits(step * ROUND_TRIP, acked, offered), step * ROUND_TRIP, ROUND_TRIP)
        received = min(offered, 1_000_000)
        acked, offered = acked + received, max(offered, 2 * received)
    assert not found


def test_a_window_that_closes_for_a_moment_does_not_look_full() -> None:
    window, found = SendWindow(), False
    for step in range(100):
        offered = WINDOW if step % 2 else WINDOW // 4
        limits = SendLimits(step * ROUND_TRIP, step * WINDOW // 3, offered)
        found |= window.note(limits, step * ROUND_TRIP, ROUND_TRIP)
    assert not found


def test_the_figures_of_linux_are_found() -> None:
    """As read after 8 s from a connection that one window limited all the time."""
    info = bytearray(INFO_BYTES)
    struct.pack_into("=Q", info, 120, 9_437_745)
    struct.pack_into("=QQ", info, 168, 8_024_000, 2_484_000)
    struct.pack_into("=I", info, 228, 126_560)
    limits, window = SendLimits.of(bytes(info)), SendWindow()
    assert limits == SendLimits(8.024, 9_437_745, 126_560)
    window.note(SendLimits(), 0.0, 0.100142)
    assert window.note(limits, 8.02, 0.100142)


def test_unknown_figures_say_nothing() -> None:
    window = SendWindow()
    assert not any(window.note(SendLimits.of(b""), step * 0.1, 0.1) for step in range(100))
