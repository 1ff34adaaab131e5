"""CPU cost of copying in each hour, and the task capacity derived from it. Pure.

One thread of one worker process copies a task, so the capacity of a task is the rate of one core. The input
is measured in intervals of workers: CPU seconds, bytes, records and batches of one group of datastreams. The
rate of a core is the bytes of an hour divided by its CPU seconds. The error of the costs follows from the
variance between intervals (the variance of a ratio estimator: W. G. Cochran, Sampling Techniques, 3rd ed.,
6.3).

CPU time for small responses and batches of an idle worker is excluded, because it disappears under load. The
spare time is estimated (`spare_cpu_ms` of `MirrorMetric`), which increases the error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Final

from mirror.model.identifiers import GroupName

HOUR_MS: Final = 3_600_000
KEPT_HOURS: Final = 26
"""Number of hours for which costs are kept. A period of more than a day includes a daily peak."""
LEAST_OBSERVATIONS: Final = 12
LEAST_SECONDS: Final = 60.0
"""Minimum number of intervals, and their minimum total seconds, from which a capacity is derived."""
_ENOUGH_SECONDS: Final = 300.0
"""If any hour has this many seconds of measurements, hours with fewer are ignored.

A shorter hour may contain only the start of a worker.
"""
_BUSY_SHARE: Final = 0.5
"""Share of the busiest hour's CPU time below which an hour is ignored.

Most CPU time of an idle hour is polling.
"""
_FURTHEST: Final = 4
"""Maximum capacity, as a multiple of the rate of the fastest observed worker.

At a higher rate, the network or a disk may be the bottleneck.
"""
_SIGMAS: Final = 2.0
_MOST_SPARE: Final = 0.9
"""Maximum share of CPU time to exclude, even if a worker was almost idle."""
_SPARE_ERROR: Final = 0.2
"""Approximate relative error caused by the exclusion of CPU time."""


@dataclass(frozen=True, slots=True)
class CostSums:
    """Sums of the copying costs of one group, over measurement intervals of workers.

    `seconds`: total length of the intervals. `passthrough_batches`: batches copied without decompression.
    `spare_cpu_seconds`: part of `cpu_seconds` that disappears under full load. `cpu_squared`,
    `bytes_squared`, `cpu_bytes`: sums of products of CPU time (without spare time) and bytes, in s², bytes²
    and s·bytes. `fastest`: highest rate of an interval in bytes per second.
    """

    observations: int
    seconds: float
    cpu_seconds: float
    bytes: float
    records: float
    batches: float
    passthrough_batches: float
    cpu_squared: float
    bytes_squared: float
    cpu_bytes: float
    fastest: float
    spare_cpu_seconds: float = 0.0

    @classmethod
    def of(
        cls,
        seconds: float,
        cpu_seconds: float,
        copied: float,
        records: float,
        batches: float,
        passed: float,
        spare: float = 0.0,
    ) -> CostSums:
        """Return the sums of one measurement interval."""
        needed = _needed(cpu_seconds, spare)
        return cls(
            observations=1,
            seconds=seconds,
            cpu_seconds=cpu_seconds,
            bytes=copied,
            records=records,
            batches=batches,
            passthrough_batches=passed,
            cpu_squared=needed**2,
            bytes_squared=copied**2,
            cpu_bytes=needed * copied,
            fastest=copied / seconds,
            spare_cpu_seconds=spare,
        )

    def plus(self, other: CostSums) -> CostSums:
        """Return the sum of both."""
        names = [field.name for field in fields(self) if field.name != "fastest"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return CostSums(**sums, fastest=max(self.fastest, other.fastest))

    @property
    def is_conclusive(self) -> bool:
        """True if the sums are sufficient to compute a capacity."""
        is_long = self.observations >= LEAST_OBSERVATIONS and self.seconds >= LEAST_SECONDS
        return is_long and self.cpu_seconds > 0 and self.bytes > 0

    @property
    def needed_cpu_seconds(self) -> float:
        """CPU seconds that the same work would cost under full load."""
        return _needed(self.cpu_seconds, self.spare_cpu_seconds)

    @property
    def bytes_per_core_second(self) -> float:
        """Bytes that one core copies per second under full load."""
        return self.bytes / self.needed_cpu_seconds

    @property
    def error(self) -> float:
        """Standard error of `bytes_per_core_second`, in the same unit."""
        ratio, count = self.bytes_per_core_second, self.observations
        spread = self.bytes_squared - 2 * ratio * self.cpu_bytes + ratio**2 * self.cpu_squared
        sampled = math.sqrt(max(spread, 0.0) * count / max(count - 1, 1)) / self.needed_cpu_seconds
        return sampled + _SPARE_ERROR / _SIGMAS * (ratio - self.bytes / self.cpu_seconds)


def _needed(cpu_seconds: float, spare: float) -> float:
    return max(cpu_seconds - spare, (1 - _MOST_SPARE) * cpu_seconds)


@dataclass(frozen=True, slots=True)
class MeasuredCapacity:
    """Bytes and records that one core copies per second, measured in the most expensive of the busy hours.

    `low`, `high`: `bytes_per_second` minus and plus twice the standard error. `furthest`: upper limit of
    `bytes_per_second`. `spare`: share of excluded CPU time.

    `observations`, `seconds`: totals over all `hours` that were used. `bytes_per_batch`, `records_per_batch`
    and `passthrough` (share of batches copied without decompression) are from the most expensive hour.
    """

    bytes_per_second: float
    messages_per_second: float
    low: float
    high: float
    furthest: float
    observations: int
    seconds: float
    hours: int
    bytes_per_batch: float
    records_per_batch: float
    passthrough: float
    spare: float = 0.0


GroupCosts = Mapping[GroupName, Mapping[int, CostSums]]
"""Maps each group and hour (hours since the epoch) to cost sums."""


def merged_hours(several: Iterable[Mapping[int, CostSums]]) -> dict[int, CostSums]:
    """Add the sums of several instances, separately for each hour (hours since the epoch)."""
    found: dict[int, CostSums] = {}
    for hours in several:
        for hour, sums in hours.items():
            found[hour] = found[hour].plus(sums) if hour in found else sums
    return found


def learned(hours: Mapping[int, CostSums], now_hour: int) -> MeasuredCapacity | None:
    """Return the capacity measured over the last day, or None without enough data.

    The most expensive hour determines the capacity, so that a plan is valid at every hour of a day with
    varying batch sizes. If no hour has enough data by itself, all hours count as one.
    """
    recent = [sums for hour, sums in hours.items() if now_hour - KEPT_HOURS < hour <= now_hour]
    known = [sums for sums in recent if sums.is_conclusive] or _together(recent)
    known = [sums for sums in known if sums.seconds >= _ENOUGH_SECONDS] or known
    if not known:
        return None
    busiest = max(sums.cpu_seconds / sums.seconds for sums in known)
    counted = [sums for sums in known if sums.cpu_seconds / sums.seconds >= _BUSY_SHARE * busiest]
    dearest = min(counted, key=lambda sums: sums.bytes_per_core_second)
    rate, margin = dearest.bytes_per_core_second, _SIGMAS * dearest.error
    batches = max(dearest.batches, 1.0)
    return MeasuredCapacity(
        bytes_per_second=rate,
        messages_per_second=dearest.records / dearest.needed_cpu_seconds,
        low=max(rate - margin, 0.0),
        high=rate + margin,
        furthest=_FURTHEST * max(sums.fastest for sums in known),
        observations=sum(sums.observations for sums in counted),
        seconds=sum(sums.seconds for sums in counted),
        hours=len(counted),
        bytes_per_batch=dearest.bytes / batches,
        records_per_batch=dearest.records / batches,
        passthrough=min(dearest.passthrough_batches / batches, 1.0),
        spare=1 - dearest.needed_cpu_seconds / dearest.cpu_seconds,
    )


def _together(several: Sequence[CostSums]) -> list[CostSums]:
    """Return a list with the sum of the hours, or an empty list if there is not enough data."""
    if not several:
        return []
    joint = reduce(CostSums.plus, several)
    return [joint] if joint.is_conclusive else []
