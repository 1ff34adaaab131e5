"""Loads and latencies over time, as values, and since when a load is high. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.metrics import percentile_ms
from mirror.model.topics import TopicPartition
from pinot.time_range import TimeRange

HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = tuple(
    seconds * 1_000 for seconds in (10, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400)
)


class LoadHour(NamedTuple):
    """What arrived in an hour from `hour_ms` (epoch ms) on, in bytes per second. `begin_ms`: from when on it
    was measured, as far as that is known. `p95`, `most`: of the samples; None of a sum of partitions."""

    hour_ms: int
    begin_ms: int
    mean: float
    p95: float | None
    most: float | None


LoadHours = Mapping[TopicPartition, Sequence[LoadHour]]
"""Of each partition that was measured, the oldest first; an hour without samples is missing."""


class HighLoad(NamedTuple):
    """Since when a load is high without a break. `is_longer`: nothing is known of the time before, so that it
    may have been for longer."""

    since_ms: int
    is_longer: bool


def high_since(hours: Sequence[LoadHour], least: float) -> HighLoad | None:
    """Since when the p95 of each hour is at least `least` bytes per second; None where the newest hour's is
    not, or none is known. `hours`: the oldest first. An hour without samples ends what is known."""
    since: LoadHour | None = None
    for one in reversed(hours):
        if since is not None and since.hour_ms - one.hour_ms > HOUR_MS:
            return HighLoad(since.begin_ms, is_longer=True)
        if one.p95 is None or one.p95 < least:
            return None if since is None else HighLoad(since.begin_ms, is_longer=False)
        since = one
    return None if since is None else HighLoad(since.begin_ms, is_longer=True)


def merged(rolled_up: LoadHours, sampled: LoadHours) -> dict[TopicPartition, list[LoadHour]]:
    """Of each partition all hours, the oldest first; where both have one, the samples' counts."""
    found: dict[TopicPartition, dict[int, LoadHour]] = {}
    for hours in (rolled_up, sampled):
        for place, some in hours.items():
            found.setdefault(place, {}).update({one.hour_ms: one for one in some})
    return {place: [some[hour] for hour in sorted(some)] for place, some in found.items()}


class LatencyStep(NamedTuple):
    """One step of time from `begin_ms` (epoch ms) on: records copied, batches, the latencies of all batches
    summed by stage (ms: source, fetch, queue, produce), the age in ms of the oldest record that waited (None:
    not known), the histogram of `mirror.model.metrics`, and bytes copied."""

    begin_ms: int
    records: int
    batches: int
    stages_ms: tuple[float, float, float, float]
    oldest_ms: int | None
    counts: tuple[int, ...]
    size_bytes: int = 0

    @property
    def p50_ms(self) -> float | None:
        """Median latency in ms; None without records."""
        return percentile_ms(self.counts, 50)

    @property
    def p99_ms(self) -> float | None:
        """99th percentile of the latency in ms; None without records."""
        return percentile_ms(self.counts, 99)

    @property
    def mean_stages_ms(self) -> tuple[float | None, ...]:
        """Of an average batch; None of each without batches."""
        if not self.batches:
            return (None,) * len(self.stages_ms)
        return tuple(one / self.batches for one in self.stages_ms)


@dataclass(frozen=True)
class LatencyHistory:
    """Steps of `step_ms`, the oldest first; one in which nothing was measured is missing."""

    step_ms: int
    steps: Sequence[LatencyStep]


def step_for(when: TimeRange, most: int) -> int:
    """The shortest usual step, in ms, that needs at most `most` of them for the range; beyond the longest
    usual one, whole days."""
    for step in _STEPS_MS:
        if when.length_ms <= step * (most - 1):
            return step
    days = -(-when.length_ms // (_STEPS_MS[-1] * max(most - 1, 1)))
    return days * _STEPS_MS[-1]


def begun(when: TimeRange, step_ms: int) -> range:
    """Beginnings of all steps that the range touches."""
    return range(when.since_ms // step_ms * step_ms, when.until_ms, step_ms)


def sums_by_hour(hours: Iterable[tuple[int, float]]) -> list[LoadHour]:
    """Sums of partitions as hours, the oldest first. `hours`: each hour once, with its sum."""
    return [LoadHour(hour, hour, total, None, None) for hour, total in sorted(hours)]
