"""Estimates loads from the hourly rollups of earlier weeks or days."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Final

from mirror.model.load import PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.rollups import HOUR_MS
from pinot.time_range import TimeRange

_DAY_MS: Final = 24 * HOUR_MS
WEEKS: Final = 4
"""Number of earlier weeks to read."""
DAYS: Final = 6
"""Number of earlier days to read for partitions without rollups in any of the weeks."""

LoadsOfHour = Callable[[TimeRange], Mapping[TopicPartition, PartitionLoad]]
"""Returns the load of every partition that has a rollup of that hour."""


def seasonal_loads(
    wanted: Iterable[TopicPartition], now_ms: int, loads_of: LoadsOfHour
) -> dict[TopicPartition, PartitionLoad]:
    """Return the median load at the same hour of the week in earlier weeks or, if unknown, in earlier days.

    With the median, a single holiday or outage has no effect. Partitions without any rollup of these hours
    are omitted. `measured_at_ms` is the latest hour that was used. Raises the errors of `loads_of`.
    """
    missing = set(wanted)
    found: dict[TopicPartition, PartitionLoad] = {}
    for hours in (_same_hours(now_ms, 7 * _DAY_MS, WEEKS), _same_hours(now_ms, _DAY_MS, DAYS)):
        if not missing:
            break
        by_hour = [loads_of(hour) for hour in hours]
        for partition in sorted(missing):
            loads = [some[partition] for some in by_hour if partition in some]
            if loads:
                found[partition] = _median(loads)
        missing -= found.keys()
    return found


def _same_hours(now_ms: int, period_ms: int, number: int) -> Iterator[TimeRange]:
    """Yield the time range of the current hour in earlier weeks or days, newest first."""
    begin = now_ms // HOUR_MS * HOUR_MS
    for back in range(1, number + 1):
        since = begin - back * period_ms
        if since >= 0:
            yield TimeRange(since, since + HOUR_MS)


def _median(loads: list[PartitionLoad]) -> PartitionLoad:
    messages = [load.messages_per_second for load in loads if load.messages_per_second is not None]
    hours = (load.measured_at_ms for load in loads if load.measured_at_ms is not None)
    return replace(
        loads[0],
        bytes_per_second=median(load.bytes_per_second for load in loads),
        messages_per_second=median(messages) if messages else None,
        rate_source=RateSource.SEASONAL,
        measured_at_ms=max(hours, default=None),
    )
