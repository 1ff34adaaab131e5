"""Loads of the same hour of earlier weeks, else of earlier days."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from mirror.errors import Unreachable
from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.rollups import HOUR_MS
from pinot.time_range import TimeRange
from pmp.loads.seasonal import seasonal_loads

DAY: Final = 24 * HOUR_MS
WEEK: Final = 7 * DAY
NOW: Final = 100 * WEEK + 13 * HOUR_MS + 1_234_567
HOUR: Final = 100 * WEEK + 13 * HOUR_MS
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Rollups:
    """Loads by the start of their hour; records the hours that were read."""

    def __init__(self, loads: Mapping[int, Mapping[TopicPartition, float]]) -> None:
        self.loads = loads
        self.read: list[int] = []

    def of(self, hour: TimeRange) -> dict[TopicPartition, PartitionLoad]:
        assert hour.length_ms == HOUR_MS
        self.read.append(hour.since_ms)
        return {
            key: PartitionLoad(rate, rate / 100, LoadLevel.PARTITION, RateSource.SLOPE, hour.since_ms)
            for key, rate in self.loads.get(hour.since_ms, {}).items()
        }


def test_the_median_of_the_same_hour_of_four_weeks_ignores_a_holiday() -> None:
    rates = {HOUR - 1 * WEEK: 900.0, HOUR - 2 * WEEK: 1.0, HOUR - 3 * WEEK: 1000.0, HOUR - 4 * WEEK: 1100.0}
    rollups = Rollups({hour: {T0: rate} for hour, rate in rates.items()})
    (load,) = seasonal_loads([T0], NOW, rollups.of).values()
    assert load == PartitionLoad(950.0, 9.5, LoadLevel.PARTITION, RateSource.SEASONAL, HOUR - WEEK)
    assert rollups.read == sorted(rates, reverse=True), "days were read although all weeks are known"


def test_partitions_younger_than_a_week_get_the_same_hour_of_earlier_days() -> None:
    rollups = Rollups({HOUR - WEEK: {T0: 10.0}, HOUR - DAY: {T0: 99.0, T1: 20.0}, HOUR - 2 * DAY: {T1: 40.0}})
    loads = seasonal_loads([T0, T1, T2], NOW, rollups.of)
    assert {key: load.bytes_per_second for key, load in loads.items()} == {T0: 10.0, T1: 30.0}


def test_nothing_wanted_reads_nothing_and_a_failure_is_raised() -> None:
    rollups = Rollups({})
    assert seasonal_loads([], NOW, rollups.of) == {}
    assert rollups.read == []

    def fail(hour: TimeRange) -> Mapping[TopicPartition, PartitionLoad]:
        raise Unreachable("no broker")

    with pytest.raises(Unreachable):
        seasonal_loads([T0], NOW, fail)
