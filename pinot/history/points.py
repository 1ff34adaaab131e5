"""Loads and latencies of past times, and the start of a period of high load. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from mirror.model.latency import percentile_ms
from mirror.model.topics import TopicPartition
from pinot.time_range import TimeRange

HOUR_MS: Final = 3_600_000
_STEPS_MS: Final = tuple(
    seconds * 1_000 for seconds in (10, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 21_600, 86_400)
)


class LoadHour(NamedTuple):
    """Load of a partition in one hour, which starts at `hour_ms` (epoch ms), in bytes per second.

    `begin_ms`: start of the hour's measurements if known, otherwise start of the hour. `p95`, `most`: p95 and
    maximum of the samples; None for a sum of partitions.
    """

    hour_ms: int
    begin_ms: int
    mean: float
    p95: float | None
    most: float | None


LoadHours = Mapping[TopicPartition, Sequence[LoadHour]]
"""Hours of each partition, oldest first; hours without samples are missing."""


class HighLoad(NamedTuple):
    """Start of the uninterrupted period of high load that includes the latest hour.

    `is_longer`: the period may have started earlier, because the values before are unknown.
    """

    since_ms: int
    is_longer: bool


def high_since(hours: Sequence[LoadHour], least: float) -> HighLoad | None:
    """Return the start of the latest period of high load; None if the load is not high.

    Within the period, the p95 of every hour is at least `least` bytes per second. None means that the p95 of
    the latest hour is lower, or that no hour is known. `hours`: hours, oldest first. The period does not
    extend beyond an hour without samples.
    """
    since: LoadHour | None = None
    for hour in reversed(hours):
        if since is not None and since.hour_ms - hour.hour_ms > HOUR_MS:
            return HighLoad(since.begin_ms, is_longer=True)
        if hour.p95 is None or hour.p95 < least:
            return None if since is None else HighLoad(since.begin_ms, is_longer=False)
        since = hour
    return None if since is None else HighLoad(since.begin_ms, is_longer=True)


def merged(rolled_up: LoadHours, sampled: LoadHours) -> dict[TopicPartition, list[LoadHour]]:
    """Merge samples and rollups to hourly loads of each partition, oldest first. Samples take precedence."""
    found: dict[TopicPartition, dict[int, LoadHour]] = {}
    for hours in (rolled_up, sampled):
        for place, some in hours.items():
            found.setdefault(place, {}).update({point.hour_ms: point for point in some})
    return {place: [some[hour] for hour in sorted(some)] for place, some in found.items()}


class UsageSum(NamedTuple):
    """Usage of one topic of a group on one day, which starts at `day_ms` (UTC), summed over its
    partitions."""

    day_ms: int
    group: str
    cluster: str
    topic: str
    records: int
    bytes: int
    batches: int
    cpu_ms: float


class LatencyStep(NamedTuple):
    """Latency measurements in one time step, which starts at `begin_ms` (epoch ms).

    Records copied, batches, the latencies of all batches summed by stage (ms: source, fetch, queue, produce),
    the age in ms of the oldest waiting record (None: unknown), the histogram of `mirror.model.metrics`, bytes
    copied, and the waiting records times the length in ms of each report, summed.
    """

    begin_ms: int
    records: int
    batches: int
    stages_ms: tuple[float, float, float, float]
    oldest_ms: int | None
    counts: tuple[int, ...]
    size_bytes: int = 0
    waiting_record_ms: int = 0

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
        """Mean time of a batch in each stage, in ms; None without batches."""
        if not self.batches:
            return (None,) * len(self.stages_ms)
        return tuple(stage_ms / self.batches for stage_ms in self.stages_ms)


@dataclass(frozen=True)
class LatencyHistory:
    """Latency in time steps of `step_ms`, oldest first; steps without measurements are missing."""

    step_ms: int
    steps: Sequence[LatencyStep]


def step_for(when: TimeRange, most: int) -> int:
    """Return the shortest standard step (ms) that covers the range with at most `most` steps.

    If even the longest standard step is too short, return whole days.
    """
    for step in _STEPS_MS:
        if when.length_ms <= step * (most - 1):
            return step
    days = -(-when.length_ms // (_STEPS_MS[-1] * max(most - 1, 1)))
    return days * _STEPS_MS[-1]


def begun(when: TimeRange, step_ms: int) -> range:
    """Return the start times of all time steps that overlap the range."""
    return range(when.since_ms // step_ms * step_ms, when.until_ms, step_ms)


def sums_by_hour(hours: Iterable[tuple[int, float]]) -> list[LoadHour]:
    """Convert (hour, load sum) pairs to hourly loads, oldest first. `hours`: each hour at most once."""
    return [LoadHour(hour, hour, total, None, None) for hour, total in sorted(hours)]
