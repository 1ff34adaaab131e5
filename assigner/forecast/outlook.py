"""Forecast of the load of every partition in the next hours: low, middle and high."""

from __future__ import annotations

from collections.abc import Mapping
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
"""Limit of hours between the first and the last hour of a history."""
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
        """Return the load of each partition in an hour in which all together carry `total`, capped at the
        highest rate that a planner accepts."""
        shape = self.shapes[number]
        before = sum(load.bytes_per_second for load in shape.values())
        factor = total / before if before else 1.0
        highest = max(
            (max(load.bytes_per_second, load.messages_per_second or 0.0) for load in shape.values()),
            default=0.0,
        )
        if highest * factor <= HIGHEST_RATE:
            return {partition: scaled(load, factor) for partition, load in shape.items()}
        return {partition: _possible(scaled(load, factor)) for partition, load in shape.items()}


def outlook(history: Mapping[int, Loads], ahead: int, certainty: float) -> Outlook:
    """Forecast the `ahead` hours after the last one of `history` (loads by start of the hour, epoch ms).

    Only partitions measured in the last day count: deleted ones have no further load. An hour missing in
    `history` is unknown; a partition missing in a known hour carried nothing.

    Raises InvalidRequest as SeasonalForecast does, and if an hour cannot be forecast.
    """
    if not history:
        raise InvalidRequest("the history is empty")
    last, first = max(history), min(history)
    if (last - first) // HOUR_MS > MOST_HOURS:
        raise InvalidRequest(
            f"the history spans more than {MOST_HOURS // 8760} years",
            advice="check the unit of its times: the start of each hour must be in epoch milliseconds",
        )
    hours = range(first, last + 1, HOUR_MS)
    lately = [history[hour] for hour in hours[-DAY:] if hour in history]
    partitions = sorted({partition for loads in lately for partition in loads})
    series = np.array([_sum(history.get(hour), partitions) for hour in hours])
    forecast = SeasonalForecast(series, ahead, certainty)
    totals = forecast.interval()
    if not np.isfinite(totals.high).all():
        number = int(np.argmin(np.isfinite(totals.high)))
        raise InvalidRequest(
            f"cannot forecast the load {counted(number + 1, 'hour')} "
            "ahead: the history lacks that hour of the day",
            advice="provide a longer history, or reduce the horizon",
        )
    newest: dict[TopicPartition, PartitionLoad] = {}
    for hour in sorted(history):
        newest.update(history[hour])
    shapes = tuple(
        _shape(history, last + number * HOUR_MS, partitions, newest) for number in range(1, ahead + 1)
    )
    return Outlook(last + HOUR_MS, totals, shapes, forecast.grade())


def _possible(load: PartitionLoad) -> PartitionLoad:
    messages = load.messages_per_second
    return replace(
        load,
        bytes_per_second=min(load.bytes_per_second, HIGHEST_RATE),
        messages_per_second=None if messages is None else min(messages, HIGHEST_RATE),
    )


def _sum(loads: Loads | None, partitions: list[TopicPartition]) -> float:
    if loads is None:
        return float("nan")
    return float(sum(loads[partition].bytes_per_second for partition in partitions if partition in loads))


def _shape(
    history: Mapping[int, Loads], hour_ms: int, partitions: list[TopicPartition], newest: Loads
) -> Loads:
    """Return for each partition the larger of its loads a day and a week before, else its latest known
    load."""
    distance = (hour_ms - max(history)) // HOUR_MS
    places = [hour_ms - step * -(-distance // step) * HOUR_MS for step in (DAY, WEEK)]
    hours = [history[place] for place in places if place in history]
    found: dict[TopicPartition, PartitionLoad] = {}
    for partition in partitions:
        known = [loads[partition] for loads in hours if partition in loads]
        found[partition] = max(known, key=lambda load: load.bytes_per_second, default=newest[partition])
    return found
