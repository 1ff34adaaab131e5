"""What copying cost in CPU time, by hour, and the capacity of a task that follows from it. Pure.

A task is copied in one worker process by one thread, so what it can carry is what one core can copy. Observed
are intervals of workers: CPU seconds, bytes, records and batches of one group of datastreams. Of the sums of
an hour, bytes over CPU seconds is what a core copies in a second; how sure that is follows from how the
intervals differ (the variance of a ratio estimator: W. G. Cochran, Sampling Techniques, 3rd ed., 6.3).

What a worker that is not busy spends on small answers and batches is left out: it is spared where there is
more to copy. How much that is follows from counts (`spare_cpu_ms` of `MirrorMetric`) and is less certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Final

HOUR_MS: Final = 3_600_000
KEPT_HOURS: Final = 26
"""What is busy once a day is always among them."""
LEAST_OBSERVATIONS: Final = 12
LEAST_SECONDS: Final = 60.0
"""Of an hour that says anything: intervals, and their length together."""
_ENOUGH_SECONDS: Final = 300.0
"""Of an hour beside which one with less does not count: it may hold nothing but a start."""
_BUSY_SHARE: Final = 0.5
"""Of the CPU time of the busiest hour: hours with less are not those that capacity is needed for, and in
them the cost of asking weighs more than that of copying."""
_FURTHEST: Final = 4
"""Times what one worker was seen to carry: beyond, a network or a disk may be the limit."""
_SIGMAS: Final = 2.0
_MOST_SPARE: Final = 0.9
"""Share of CPU time that is left out at most, however idle a worker was."""
_SPARE_ERROR: Final = 0.2
"""Part of what leaving spare CPU time out changes by which it may be wrong, about."""


@dataclass(frozen=True, slots=True)
class CostSums:
    """Sums over intervals of workers, of one group. `seconds`: their length; `passthrough_batches`: those of
    `batches` that were not opened. `spare_cpu_seconds` of `cpu_seconds`: what a full load would not cost.
    `cpu_squared`, `bytes_squared`, `cpu_bytes`: sums of products, in s², bytes² and s·bytes, of the CPU time
    that is not spare. `fastest`: most bytes per second of one interval."""

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
        """One interval."""
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
        """Both together."""
        names = [one.name for one in fields(self) if one.name != "fastest"]
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return CostSums(**sums, fastest=max(self.fastest, other.fastest))

    @property
    def says_enough(self) -> bool:
        """Whether a capacity can be computed from it."""
        is_long = self.observations >= LEAST_OBSERVATIONS and self.seconds >= LEAST_SECONDS
        return is_long and self.cpu_seconds > 0 and self.bytes > 0

    @property
    def needed_cpu_seconds(self) -> float:
        """What the same would cost under a full load."""
        return _needed(self.cpu_seconds, self.spare_cpu_seconds)

    @property
    def bytes_per_core_second(self) -> float:
        """What one core copies in a second under a full load."""
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
class Learned:
    """What one core was found to copy, in the dearest of the busy hours. Rates are per second of one core;
    `low`, `high`: twice the standard error around `bytes_per_second`, which `furthest` may cap. `spare`: the
    share of CPU time that was left out, as a full load would not cost it.

    `observations`, `seconds`: of all hours that count, `hours` of them. `bytes_per_batch`,
    `records_per_batch` and `passthrough`, the share of batches that were not opened: of the dearest hour.
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


def merged_hours(several: Iterable[Mapping[int, CostSums]]) -> dict[int, CostSums]:
    """Sums by hour (hours since the epoch) of several instances."""
    found: dict[int, CostSums] = {}
    for hours in several:
        for hour, sums in hours.items():
            found[hour] = found[hour].plus(sums) if hour in found else sums
    return found


def learned(hours: Mapping[int, CostSums], now_hour: int) -> Learned | None:
    """What the hours of the last day say; None where they do not say enough.

    The dearest hour counts, so that a plan holds at every time of a day whose batches change their size.
    Where no hour says enough by itself, such as right after a full hour, all of them count as one.
    """
    recent = [one for hour, one in hours.items() if now_hour - KEPT_HOURS < hour <= now_hour]
    known = [one for one in recent if one.says_enough] or _together(recent)
    known = [one for one in known if one.seconds >= _ENOUGH_SECONDS] or known
    if not known:
        return None
    busiest = max(one.cpu_seconds / one.seconds for one in known)
    counted = [one for one in known if one.cpu_seconds / one.seconds >= _BUSY_SHARE * busiest]
    dearest = min(counted, key=lambda one: one.bytes_per_core_second)
    rate, margin = dearest.bytes_per_core_second, _SIGMAS * dearest.error
    batches = max(dearest.batches, 1.0)
    return Learned(
        bytes_per_second=rate,
        messages_per_second=dearest.records / dearest.needed_cpu_seconds,
        low=max(rate - margin, 0.0),
        high=rate + margin,
        furthest=_FURTHEST * max(one.fastest for one in known),
        observations=sum(one.observations for one in counted),
        seconds=sum(one.seconds for one in counted),
        hours=len(counted),
        bytes_per_batch=dearest.bytes / batches,
        records_per_batch=dearest.records / batches,
        passthrough=min(dearest.passthrough_batches / batches, 1.0),
        spare=1 - dearest.needed_cpu_seconds / dearest.cpu_seconds,
    )


def _together(several: Sequence[CostSums]) -> list[CostSums]:
    """Their sum, where it says enough."""
    if not several:
        return []
    joint = reduce(CostSums.plus, several)
    return [joint] if joint.says_enough else []
