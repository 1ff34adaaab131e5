"""Detection of a broker whose window limits a connection."""

from __future__ import annotations

import pytest

from mirror.replication.channels.send_window import SendLimits, SendWindow


def is_limited(busy: float, limited: float, round_trip: float = 0.1, seconds: float = 10.0) -> bool:
    """Return the verdict on a connection that is `busy` and `limited` for these shares of the time."""
    window, now, found = SendWindow(), 0.0, False
    while now < seconds:
        found |= window.note(SendLimits(now * busy, now * busy * limited, 102_400), now, round_trip)
        now += round_trip
    return found


@pytest.mark.parametrize(
    ("busy", "limited", "expected"),
    [(1.0, 0.95, True), (1.0, 0.1, False), (0.1, 1.0, False), (0.0, 0.0, False), (0.8, 0.8, True)],
)
def test_a_full_window_while_data_waits_limits(busy: float, limited: float, expected: bool) -> None:
    assert is_limited(busy, limited) is expected


def test_a_window_that_opens_within_some_round_trips_does_not() -> None:
    window = SendWindow()
    for step in range(100):
        now = step * 0.1
        assert not window.note(SendLimits(now, min(now, 0.3), 6_000_000), now, 0.1)


def test_unknown_figures_say_nothing() -> None:
    window = SendWindow()
    assert not any(window.note(SendLimits.of(b""), step * 0.1, 0.1) for step in range(100))
