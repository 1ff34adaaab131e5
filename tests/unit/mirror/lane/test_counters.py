"""Counters of lanes add up, all of them."""

from __future__ import annotations

from mirror.lane.counters import LaneCounters
from mirror.model.metrics import LATENCY_BUCKETS


def values(counters: LaneCounters) -> dict[str, object]:
    found = {name: getattr(counters, name) for name in dir(counters) if not name.startswith("_")}
    return {name: value for name, value in found.items() if not callable(value)}


def filled(start: int) -> LaneCounters:
    """Every counter another one."""
    counters = LaneCounters()
    counters.latency = [0] * LATENCY_BUCKETS
    for number, (name, value) in enumerate(values(counters).items(), start):
        filling = [number] * len(value) if isinstance(value, list) else type(value)(number)  # type: ignore[call-arg]
        setattr(counters, name, filling)
    return counters


def test_every_counter_adds_up() -> None:
    sums = filled(1)
    sums.add(filled(100))
    expected = filled(101)
    for number, (name, value) in enumerate(values(expected).items()):
        doubled = 101 + 2 * number
        setattr(expected, name, [doubled] * len(value) if isinstance(value, list) else doubled)
    assert values(sums) == values(expected)
