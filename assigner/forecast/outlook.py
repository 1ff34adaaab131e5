"""Forecast of the load of every partition in the next hours: low, middle and high."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.forecast.rules import DAY, WEEK
from assigner.forecast.seasonal import ForecastGrade, ForecastInterval, SeasonalForecast
from assigner.problem.loads import scaled
from mirror.errors import InvalidRequest
from mirror.model.load import HIGHEST_RATE, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.wording import counted

HOUR_MS: Final = 3_600_000
MOST_HOURS: Final = 5 * 8760
"""Maximum number of hours between the first and the last hour of a history."""
Loads = Mapping[TopicPartition, PartitionLoad]


@dataclass(frozen=True, slots=True)
class Outlook:
    """Forecast of some hours, starting at `first_ms` (epoch ms).

    `totals`: bytes/s of all partitions together, by hour. `shapes`: expected load of each partition by hour,
    from the loads a day and a week before. `grade`: quality of such totals in the past.
    """

    first_ms: int
    totals: ForecastInterval
    shapes: tuple[Loads, ...]
    grade: ForecastGrade

    @property
    def hours_ms(self) -> list[int]:
        """Start of each hour, epoch ms."""
        return [self.first_ms + number * HOUR_MS for number in range(len(self.shapes))]

    def loads(self, number: int, total: float) -> Loads:
        """Return the load of each partition in an hour with the total load `total`, capped at the highest
        rate that a planner accepts."""
        shape = self.shapes[number]
        before = sum(load.bytes_per_second for load in shape.values())
        return ScaledLoads(shape, total / before if before else 1.0)


class ScaledLoads(Mapping[TopicPartition, PartitionLoad]):
    """Loads times a factor, at most the highest rate that a planner accepts. Each is computed when it is
    first read, so that a forecast of many partitions takes little memory."""

    def __init__(self, loads: Loads, factor: float) -> None:
        self._loads = loads
        self._factor = factor
        self._read: dict[TopicPartition, PartitionLoad] = {}

    def __getitem__(self, partition: TopicPartition) -> PartitionLoad:
        found = self._read.get(partition)
        if found is None:
            found = self._read[partition] = _possible(scaled(self._loads[partition], self._factor))
        return found

    def __contains__(self, partition: object) -> bool:
        return partition in self._loads

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._loads)

    def __len__(self) -> int:
        return len(self._loads)


def outlook(history: Mapping[int, Loads], ahead: int, certainty: float) -> Outlook:
    """Forecast the `ahead` hours that follow the last hour of `history` (loads by start of the hour, epoch
    ms).

    Only partitions that were measured in the last day count, because others may be deleted. An hour that is
    missing in `history` is unknown; a partition that is missing in a known hour had no load.

    Raises InvalidRequest as SeasonalForecast does, and if an hour cannot be forecast.
    """
    lately = _last_day(history)
    partitions = sorted({partition for loads in lately for partition in loads})
    totals = {
        hour: sum(loads[partition].bytes_per_second for partition in partitions if partition in loads)
        for hour, loads in history.items()
    }
    newest: dict[TopicPartition, PartitionLoad] = {}
    for hour in sorted(history):
        newest.update(history[hour])
    newest = {partition: newest[partition] for partition in partitions}
    return outlook_of_totals(totals, history, newest, ahead, certainty)


def outlook_of_totals(
    totals: Mapping[int, float], history: Mapping[int, Loads], newest: Loads, ahead: int, certainty: float
) -> Outlook:
    """Forecast the `ahead` hours that follow the last hour of `totals` (bytes/s by start of the hour, epoch
    ms).

    `history`: loads of partitions in some of these hours; it may be empty. `newest`: latest load of each
    partition, used if its loads a day and a week before are unknown; partitions without an entry are ignored.
    Raises as `outlook`.
    """
    if not totals:
        raise InvalidRequest("the history is empty")
    last, first = max(totals), min(totals)
    if (last - first) // HOUR_MS > MOST_HOURS:
        raise InvalidRequest(
            f"the history spans more than {MOST_HOURS // 8760} years",
            advice="check the unit of its times: the start of each hour must be in epoch milliseconds",
        )
    series = np.array([totals.get(hour, np.nan) for hour in range(first, last + 1, HOUR_MS)], np.float64)
    forecast = SeasonalForecast(series, ahead, certainty)
    found = forecast.interval()
    if not np.isfinite(found.high).all():
        number = int(np.argmin(np.isfinite(found.high)))
        raise InvalidRequest(
            f"cannot forecast the load {counted(number + 1, 'hour')} "
            "ahead: the history has no data for that hour of the day",
            advice="provide a longer history, or reduce the horizon",
        )
    shapes = tuple(_shape(history, last, last + number * HOUR_MS, newest) for number in range(1, ahead + 1))
    return Outlook(last + HOUR_MS, found, shapes, forecast.grade())


def hours_of_shapes(last_ms: int, ahead: int) -> list[int]:
    """Return the hours whose loads determine the shares of partitions in a forecast, the newest first: the
    last day, and a week before the forecast."""
    day = range(last_ms, last_ms - DAY * HOUR_MS, -HOUR_MS)
    first = last_ms - WEEK * HOUR_MS
    week = range(first + ahead * HOUR_MS, first, -HOUR_MS)
    return [*day, *(hour for hour in week if hour < day[-1])]


def _last_day(history: Mapping[int, Loads]) -> list[Loads]:
    if not history:
        return []
    since = max(history) - DAY * HOUR_MS
    return [loads for hour, loads in history.items() if hour > since]


def _possible(load: PartitionLoad) -> PartitionLoad:
    messages = load.messages_per_second
    if max(load.bytes_per_second, messages or 0.0) <= HIGHEST_RATE:
        return load
    return replace(
        load,
        bytes_per_second=min(load.bytes_per_second, HIGHEST_RATE),
        messages_per_second=None if messages is None else min(messages, HIGHEST_RATE),
    )


def _shape(history: Mapping[int, Loads], last_ms: int, hour_ms: int, newest: Loads) -> Loads:
    """Return, for each partition, the larger of its loads a day and a week before; if both are unknown, its
    latest known load."""
    distance = (hour_ms - last_ms) // HOUR_MS
    places = [hour_ms - step * -(-distance // step) * HOUR_MS for step in (DAY, WEEK)]
    hours = [history[place] for place in places if place in history]
    if not hours:
        return newest
    found: dict[TopicPartition, PartitionLoad] = {}
    for partition, latest in newest.items():
        known = [loads[partition] for loads in hours if partition in loads]
        found[partition] = max(known, key=lambda load: load.bytes_per_second, default=latest)
    return found
