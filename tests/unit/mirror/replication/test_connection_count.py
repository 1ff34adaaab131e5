"""Test the number of connections against lines on which more of them help, or do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror.replication.channels.connection_count import ConnectionCount

_RESPONSE = 250_000


def settled(rate: Callable[[int], float], round_trip: float, seconds: float = 60.0) -> ConnectionCount:
    """Return the count after reading for some seconds at `rate(connections)` bytes a second."""
    count, now = ConnectionCount(64), 0.0
    while now < seconds:
        now += _RESPONSE / rate(max(count.count, 1))
        before = count.count
        if count.note(_RESPONSE, now, round_trip) > before:
            count.opened(now, round_trip)
    return count


@pytest.mark.parametrize("round_trip", [0.02, 0.1, 0.2])
def test_all_connections_are_used_while_each_is_limited_by_the_distance(round_trip: float) -> None:
    assert settled(lambda connections: connections * 100_000 / round_trip, round_trip).count == 64


def test_no_more_are_kept_than_the_line_carries() -> None:
    line = 5e6
    found = settled(lambda connections: min(connections * 1e6, line), 0.1, 25.0)
    assert found.count in (4, 16)


def test_a_slow_line_keeps_a_few() -> None:
    seen = set()
    count, now = ConnectionCount(64), 0.0
    while now < 300:
        now += _RESPONSE / 1e6
        seen.add(count.note(_RESPONSE, now, 0.05))
    assert seen == {4, 16}
    assert count.count == 4


def test_unused_connections_are_given_up() -> None:
    count = settled(lambda connections: connections * 1e6, 0.1)
    assert not count.is_unused(61.0)
    assert count.is_unused(120.0)
    count.close()
    assert count.count == 0
    assert not count.is_unused(500.0)


def test_one_connection_may_be_the_most() -> None:
    count = ConnectionCount(1)
    assert [count.note(_RESPONSE, float(now), 0.1) for now in range(1, 20)] == [1] * 19


@pytest.mark.parametrize("round_trip", [0.02, 0.1, 0.2])
def test_a_window_that_limits_all_connections_is_measured(round_trip: float) -> None:
    found = settled(lambda connections: connections * 100_000 / round_trip, round_trip)
    assert found.bytes_each(60.0) * round_trip == pytest.approx(100_000, rel=0.1)
    assert not found.bytes_each(75.0), "outdated"


@pytest.mark.parametrize("line", [5e6, 20e6, 30e6])
def test_a_line_that_all_share_is_no_window(line: float) -> None:
    assert not settled(lambda connections: min(connections * 1e6, line), 0.1).bytes_each(60.0)


def test_a_broker_that_slows_down_is_no_window() -> None:
    def rate(connections: int) -> float:
        return connections * 1e6 if next(steps) < 6_000 else 5e6

    steps = iter(range(1_000_000))
    found = settled(rate, 0.1, 90.0)
    assert (found.count, found.bytes_each(90.0)) == (64, 0.0)


def test_connections_that_are_not_all_in_use_are_not_limited() -> None:
    assert not settled(lambda connections: connections * 1e6, 0.1, 3.0).bytes_each(3.0)
