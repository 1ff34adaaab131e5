"""Conversion of sums and means of samples to loads."""

from __future__ import annotations

import pytest

from mirror.model.load import LoadLevel, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.tables import Statistic
from pmp.loads.rates import RateOptions, partition_loads, unit_problem

MEAN = RateOptions(statistic=Statistic.MEAN)
PLAIN = PartitionRates(
    topic="t",
    kafka_partition=0,
    samples=30,
    newest_ms=60_000,
    oldest_ms=2_000,
    begin_ms=0,
    broker=1,
    inflow=100.0,
    sampled=100.0,
    messages=10.0,
    growth_bytes=6000.0,
    growth_ms=60_000,
    longest_ms=2_000,
    shrunk=0,
    size_bytes=1e6,
)


def grown(number: int, rate: float, **other: object) -> PartitionRates:
    """Return a partition whose log grew by `rate` bytes per second; the topic's average is 100."""
    return PLAIN._replace(kafka_partition=number, inflow=rate, growth_bytes=rate * 60, **other)  # type: ignore[arg-type]


def averaged(number: int, **other: object) -> PartitionRates:
    """Return a partition with a known topic average only."""
    return PLAIN._replace(kafka_partition=number, growth_bytes=0.0, growth_ms=0, **other)  # type: ignore[arg-type]


def bytes_of(rates: list[PartitionRates], reading: RateOptions = MEAN) -> dict[int, float]:
    loads = partition_loads(rates, reading)
    return {partition.partition: load.bytes_per_second for partition, load in loads.items()}


def test_growth_is_the_rate_whatever_the_average_says() -> None:
    loads = partition_loads([grown(0, 190), grown(1, 10)], MEAN)
    assert {p.partition: load.bytes_per_second for p, load in loads.items()} == {0: 190, 1: 10}
    assert {load.rate_source for load in loads.values()} == {RateSource.SLOPE}
    assert {load.level for load in loads.values()} == {LoadLevel.PARTITION}
    assert {load.measured_at_ms for load in loads.values()} == {60_000}


def test_growths_are_not_scaled_to_the_sum_after_a_step() -> None:
    assert bytes_of([grown(0, 400), grown(1, 10)]) == {0: 400, 1: 10}
    assert bytes_of([grown(0, 20), grown(1, 10)]) == {0: 20, 1: 10}


def test_partitions_without_growth_share_what_the_others_leave() -> None:
    rates = [grown(0, 190), averaged(1), averaged(2)]
    assert bytes_of(rates) == {0: 190, 1: 55, 2: 55}
    loads = partition_loads(rates, MEAN)
    assert loads[TopicPartition("t", 1)].rate_source is RateSource.MEAN


def test_what_the_others_leave_is_never_negative() -> None:
    assert bytes_of([grown(0, 500), averaged(1)]) == {0: 500, 1: 0}


def test_brokers_and_topics_are_summed_apart() -> None:
    other_topic = grown(0, 7)._replace(topic="u")
    rates = [grown(0, 190), averaged(1), averaged(2, broker=2), other_topic]
    loads = partition_loads(rates, MEAN)
    assert loads[TopicPartition("t", 1)].bytes_per_second == 10
    assert loads[TopicPartition("t", 2)].bytes_per_second == 100
    assert loads[TopicPartition("u", 0)].bytes_per_second == 7


def test_a_samplers_own_rates_are_not_averages() -> None:
    own = RateOptions(statistic=Statistic.MEAN, averaged=False)
    assert bytes_of([grown(0, 190), averaged(1, sampled=3.0)], own) == {0: 190, 1: 3}


def test_compacted_topics_have_no_growth() -> None:
    reading = RateOptions(statistic=Statistic.MEAN, compacted=frozenset({"t"}))
    loads = partition_loads([grown(0, 190), grown(1, 10)], reading)
    assert {load.bytes_per_second for load in loads.values()} == {100}
    assert {load.rate_source for load in loads.values()} == {RateSource.MEAN}


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([grown(0, 20, shrunk=3), grown(1, 20)], {0: 180, 1: 20}),
        ([grown(0, 20, shrunk=3), grown(1, 5, shrunk=1), grown(2, 50)], {0: 200, 1: 50, 2: 50}),
        ([grown(0, 0, shrunk=3), grown(1, 0, shrunk=3)], {0: 100, 1: 100}),
        ([grown(0, 150, shrunk=3), grown(1, 40)], {0: 150, 1: 40}),
    ],
    ids=["one shrinks", "two shrink", "all stand still", "not clearly short"],
)
def test_growth_that_retention_hides_is_found_by_the_sum(
    rates: list[PartitionRates], expected: dict[int, float]
) -> None:
    assert bytes_of(rates) == pytest.approx(expected)
    unsettled = RateOptions(statistic=Statistic.MEAN, settled=False)
    seen = {rate.kafka_partition: rate.growth_bytes / 60 for rate in rates}
    assert bytes_of(rates, unsettled) == pytest.approx(seen)


def test_a_statistic_is_corrected_like_the_mean() -> None:
    p95 = RateOptions(statistic=Statistic.P95)
    steady = grown(0, 190)._replace(inflow=300.0)
    unknown = averaged(1, inflow=120.0)
    assert bytes_of([steady, unknown], p95) == {0: 300, 1: 12}


def test_messages_are_spread_like_bytes_and_add_up() -> None:
    loads = partition_loads([grown(0, 180), grown(1, 20)], MEAN)
    assert loads[TopicPartition("t", 0)].messages_per_second == 18
    assert loads[TopicPartition("t", 1)].messages_per_second == 2


def test_unknown_messages_stay_unknown() -> None:
    loads = partition_loads([grown(0, 180), grown(1, 20, messages=None)], MEAN)
    assert loads[TopicPartition("t", 1)].messages_per_second is None


def test_a_wrong_unit_is_noticed() -> None:
    assert unit_problem([grown(0, 190), grown(1, 10)]) == ""
    wrong = [grown(n, rate, sampled=100.0 * 1024) for n, rate in ((0, 190), (1, 10))]
    assert "1.02e+03 times" in unit_problem(wrong)
    assert unit_problem([]) == ""
