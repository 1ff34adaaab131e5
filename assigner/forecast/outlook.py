"""Forecasts the load of every partition in the next hours: low, middle and high."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.forecast.rules import DAY, WEEK
from assigner.forecast.seasonal import ForecastGrade, ForecastInterval, SeasonalForecast
from assigner.problem.loads import Rates
from mirror.errors import InvalidRequest
from mirror.model.load import HIGHEST_RATE, PartitionLoad
from mirror.model.topics import TopicPartition
from mirror.wording import counted

HOUR_MS: Final = 3_600_000
MOST_HOURS: Final = 5 * 8760
"""Maximum number of hours between the first and the last hour of a history."""
Loads = Mapping[TopicPartition, PartitionLoad]


@dataclass(frozen=True, slots=True, eq=False)
class PastRates:
    """Partition loads in past hours, each float64[n, 2]: bytes and messages per second, NaN if unknown.

    `places`: row of each partition. `hours`: loads by start of the hour (epoch ms). `newest`: latest known
    load of each partition; its bytes are never NaN.
    """

    places: Mapping[TopicPartition, int]
    hours: Mapping[int, Rates]
    newest: Rates


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """Forecast of partition loads for some hours, starting at `first_ms` (epoch ms).

    `totals`: bytes/s of all partitions together, by hour. `shapes`: expected load of each partition by hour,
    float64[hours, n, 2] as in `PastRates`, from the loads a day and a week before. `places`: row of each
    partition. `grade`: quality of past forecasts of the total.
    """

    first_ms: int
    totals: ForecastInterval
    places: Mapping[TopicPartition, int]
    shapes: Rates
    grade: ForecastGrade

    @property
    def hours_ms(self) -> list[int]:
        """Start of each forecast hour (epoch ms)."""
        return [self.first_ms + number * HOUR_MS for number in range(len(self.shapes))]

    def loads(self, number: int, total: float) -> Loads:
        """Return the load of each partition in an hour, scaled so that their sum is `total`.

        No load exceeds the highest rate that a planner accepts.
        """
        return ScaledLoads(self.places, self.shapes[number], total)


class ScaledLoads(Mapping[TopicPartition, PartitionLoad]):
    """Partition loads multiplied by a factor, so that their sum is `total`.

    The loads of each hour are computed when they are first read, so that a forecast of many partitions takes
    little memory. `rates`: float64[n, 2] as in `PastRates`.
    """

    def __init__(self, places: Mapping[TopicPartition, int], rates: Rates, total: float) -> None:
        before = float(rates[:, 0].sum())
        self._places = places
        self._rates = rates
        self._factor = total / before if before else 1.0
        self._read: dict[TopicPartition, PartitionLoad] = {}

    def __getitem__(self, partition: TopicPartition) -> PartitionLoad:
        found = self._read.get(partition)
        if found is None:
            size, messages = (self._rates[self._places[partition]] * self._factor).tolist()
            known = None if math.isnan(messages) else min(messages, HIGHEST_RATE)
            found = self._read[partition] = PartitionLoad(min(size, HIGHEST_RATE), known)
        return found

    def __contains__(self, partition: object) -> bool:
        return partition in self._places

    def __iter__(self) -> Iterator[TopicPartition]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def outlook(history: Mapping[int, Loads], ahead: int, certainty: float) -> Outlook:
    """Forecast partition loads in the next `ahead` hours from the loads of past hours.

    `history`: loads by start of the hour (epoch ms). Only partitions that were measured in the last day
    count, because others may be deleted. An hour that is missing in `history` is unknown; a partition that is
    missing in a known hour had no load.

    Raises InvalidRequest as SeasonalForecast does, and if an hour cannot be forecast.
    """
    lately = _last_day(history)
    partitions = sorted({partition for loads in lately for partition in loads})
    totals = {
        hour: sum(loads[partition].bytes_per_second for partition in partitions if partition in loads)
        for hour, loads in history.items()
    }
    wanted = hours_of_shapes(max(history), ahead) if history else []
    hours = {hour: _rates_of(history[hour], partitions) for hour in wanted if hour in history}
    places = {partition: place for place, partition in enumerate(partitions)}
    return outlook_of_totals(totals, PastRates(places, hours, newest_of(hours.values())), ahead, certainty)


def newest_of(hours: Collection[Rates]) -> Rates:
    """Return the latest known load of each partition. `hours`: float64[n, 2] each, newest first."""
    found = np.full_like(next(iter(hours), np.empty((0, 2))), np.nan)
    for rates in hours:
        found = np.where(np.isnan(found[:, :1]), rates, found)
    return found


def outlook_of_totals(totals: Mapping[int, float], past: PastRates, ahead: int, certainty: float) -> Outlook:
    """Forecast partition loads in the next `ahead` hours, when only the sum of the past loads is complete.

    `totals`: bytes/s by start of the hour (epoch ms). `past`: loads of partitions in some of these hours, or
    none. The newest load of a partition is used if its loads a day and a week before are unknown. Raises the
    errors of `outlook`.
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
    if past.hours:
        shapes = np.array([_shape(past, last, last + number * HOUR_MS) for number in range(1, ahead + 1)])
    else:
        shapes = np.broadcast_to(past.newest, (ahead, *past.newest.shape))
    return Outlook(last + HOUR_MS, found, past.places, shapes, forecast.grade())


def hours_of_shapes(last_ms: int, ahead: int) -> list[int]:
    """Return the past hours from which the share of each partition is forecast, newest first.

    The hours are those of the last day, and the hours one week before the forecast.
    """
    day = range(last_ms, last_ms - DAY * HOUR_MS, -HOUR_MS)
    first = last_ms - WEEK * HOUR_MS
    week = range(first + ahead * HOUR_MS, first, -HOUR_MS)
    return [*day, *(hour for hour in week if hour < day[-1])]


def _last_day(history: Mapping[int, Loads]) -> list[Loads]:
    if not history:
        return []
    since = max(history) - DAY * HOUR_MS
    return [loads for hour, loads in history.items() if hour > since]


def _rates_of(loads: Loads, partitions: Sequence[TopicPartition]) -> Rates:
    """Return an hour's partition loads as an array, as in `PastRates`."""
    found = np.full((len(partitions), 2), np.nan)
    for place, partition in enumerate(partitions):
        if (load := loads.get(partition)) is not None:
            messages = load.messages_per_second
            found[place] = load.bytes_per_second, np.nan if messages is None else messages
    return found


def _shape(past: PastRates, last_ms: int, hour_ms: int) -> Rates:
    """Return each partition's load one day or one week before an hour, whichever is larger. If both are
    unknown, return the latest known load."""
    distance = (hour_ms - last_ms) // HOUR_MS
    places = [hour_ms - step * -(-distance // step) * HOUR_MS for step in (DAY, WEEK)]
    found = np.full_like(past.newest, np.nan)
    for rates in [past.hours[place] for place in places if place in past.hours]:
        is_larger = (rates[:, :1] > found[:, :1]) | np.isnan(found[:, :1])
        found = np.where(is_larger, rates, found)
    return np.asarray(np.where(np.isnan(found[:, :1]), past.newest, found))
