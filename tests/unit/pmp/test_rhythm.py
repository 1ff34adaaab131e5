"""Detection of silent and partly known partitions; one impossible time affects no other partition."""

from __future__ import annotations

from mirror.model.load import PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.partitions.pages import Grain
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.loads.rhythm import SampleTimes, marked, rhythm_of
from tests.unit.pmp.test_rates import PLAIN

NOW = 1_795_000_000_000
WINDOW = TimeRange.up_to(NOW, 600_000)
ROUND_MS = 60_000


def regular(number: int = 0, *, missed: int = 0, known: int = 10, **other: int) -> PartitionRates:
    """Return a partition with a sample per minute, with `missed` at the end and `known` growths."""
    steady = PLAIN._replace(
        kafka_partition=number,
        samples=10 - missed,
        newest_ms=NOW - missed * ROUND_MS,
        oldest_ms=NOW - 9 * ROUND_MS,
        begin_ms=NOW - 10 * ROUND_MS,
        growth_ms=(known - missed) * ROUND_MS,
    )
    return steady._replace(**other)  # type: ignore[arg-type]


def rhythm(*odd: PartitionRates, usual: int = 5, window: TimeRange = WINDOW) -> SampleTimes:
    return rhythm_of([*(regular() for _ in range(usual)), *odd], window, Grain.SAMPLES)


def test_a_partition_that_missed_the_newest_round_is_held() -> None:
    one = rhythm(regular(missed=1), window=TimeRange.up_to(NOW + 20_000, 600_000))
    assert (one.interval_ms, one.newest_ms) == (ROUND_MS, NOW)
    assert not one.is_held(regular())
    assert one.is_held(regular(missed=1))
    assert not one.is_held(regular(newest_ms=NOW - 5_000))  # the same round, read a little sooner


def test_a_round_of_which_a_half_is_there_holds_nobody() -> None:
    """The other half is on its way; partitions that also missed the previous round are held."""
    one = rhythm(regular(missed=1), regular(missed=2), window=TimeRange.up_to(NOW + 5_000, 600_000))
    assert [one.is_held(regular(missed=missed)) for missed in (0, 1, 2)] == [False, False, True]


def test_a_cluster_that_is_silent_as_a_whole_is_held_after_three_rounds() -> None:
    still = [regular(n, newest_ms=NOW, oldest_ms=NOW - 9 * ROUND_MS) for n in range(3)]
    for later_ms, is_held in ((2 * ROUND_MS, False), (5 * ROUND_MS, True)):
        one = rhythm_of(still, TimeRange.up_to(NOW + later_ms, 600_000), Grain.SAMPLES)
        assert one.is_held(still[0]) is is_held


def test_a_hole_or_a_long_growth_from_before_makes_a_load_partial() -> None:
    one = rhythm()
    assert not one.is_partial(regular(), Statistic.MEAN)
    assert one.is_partial(regular(known=9), Statistic.MEAN)
    returned = regular(oldest_ms=NOW - 8 * ROUND_MS, begin_ms=NOW - 30 * ROUND_MS)
    assert one.is_partial(returned, Statistic.MEAN)
    inside = regular(samples=3, oldest_ms=NOW - 9 * ROUND_MS)  # a gap with both ends known
    assert not one.is_partial(inside, Statistic.MEAN)


def test_missed_rounds_leave_a_mean_whole_and_make_a_p95_partial() -> None:
    """A growth over three rounds gives the amount, not the time, even if all missed the same rounds."""
    gap = regular(samples=8, longest_ms=3 * ROUND_MS)
    twice = regular(samples=8, longest_ms=2 * ROUND_MS)
    one = rhythm(gap, twice)
    for statistic, expected in ((Statistic.MEAN, False), (Statistic.P95, True), (Statistic.MAX, True)):
        assert [one.is_partial(rates, statistic) for rates in (gap, twice, regular())] == [expected] * 2 + [
            False
        ]
        assert rhythm_of([gap] * 9, WINDOW, Grain.SAMPLES).is_partial(gap, statistic) is expected


def test_a_cluster_whose_newest_rounds_are_late_is_partial_before_it_is_held() -> None:
    for late_ms, expected in ((70_000, False), (130_000, True)):
        inside = regular(growth_ms=600_000 - late_ms)
        one = rhythm_of([inside] * 5, TimeRange.up_to(NOW + late_ms, 600_000), Grain.SAMPLES)
        assert not one.is_held(inside)
        assert one.is_partial(inside, Statistic.MEAN) is expected


def test_a_young_cluster_is_not_partial_but_a_young_partition_is() -> None:
    young = regular(samples=3, oldest_ms=NOW - 2 * ROUND_MS, begin_ms=NOW - 2 * ROUND_MS, known=2)
    assert not rhythm_of([young, young], WINDOW, Grain.SAMPLES).is_partial(young, Statistic.MEAN)
    assert rhythm().is_partial(young, Statistic.MEAN)


def test_few_impossible_times_change_nothing() -> None:
    odd = regular(newest_ms=NOW + 500_000, oldest_ms=NOW - 500_000_000, begin_ms=0)
    one = rhythm(odd, usual=200)
    assert not one.is_held(regular())
    assert not one.is_partial(regular(), Statistic.MEAN)


def test_single_samples_have_no_rhythm_and_hours_have_theirs() -> None:
    single = regular(samples=1, oldest_ms=NOW, begin_ms=NOW, known=0)
    one = rhythm_of([single], WINDOW, Grain.SAMPLES)
    assert (one.interval_ms, one.is_held(single), one.is_partial(single, Statistic.MEAN)) == (
        0.0,
        False,
        False,
    )
    hours = rhythm_of([single], TimeRange.up_to(NOW + 600_000, 24 * HOUR_MS), Grain.HOURS)
    assert not hours.is_held(single._replace(newest_ms=NOW - HOUR_MS // 4))
    assert hours.is_held(single._replace(newest_ms=NOW - HOUR_MS))


def test_hours_reach_as_far_as_the_partition_that_is_known_best() -> None:
    """At 50 minutes past the hour, the start of the latest hour does not show the end of its growths."""
    hour_ms = NOW // HOUR_MS * HOUR_MS
    window = TimeRange.up_to(hour_ms + 50 * 60_000, 3 * HOUR_MS)
    whole = PLAIN._replace(
        samples=180,
        newest_ms=hour_ms,
        oldest_ms=hour_ms - 2 * HOUR_MS,
        begin_ms=hour_ms - 3 * HOUR_MS,
        growth_ms=3 * HOUR_MS,
    )
    hole = whole._replace(growth_ms=3 * HOUR_MS - 40 * 60_000)
    found = rhythm_of([whole, whole, hole], window, Grain.HOURS)
    assert (found.is_partial(whole, Statistic.MEAN), found.is_partial(hole, Statistic.MEAN)) == (False, True)


def test_only_slopes_become_partial_and_anything_becomes_held() -> None:
    whole, hole, silent = regular(0), regular(1, known=5), regular(2, missed=4)
    mean, held_mean = regular(3, known=0), regular(4, missed=3, known=3)
    rates = [whole, hole, silent, mean, held_mean]
    sources = [RateSource.SLOPE] * 3 + [RateSource.MEAN] * 2
    loads = {
        TopicPartition("t", number): PartitionLoad(1.0, rate_source=source)
        for number, source in enumerate(sources)
    }
    found = marked(loads, rates, rhythm(*rates), Statistic.MEAN)
    assert [load.rate_source for load in found.values()] == [
        RateSource.SLOPE,
        RateSource.PARTIAL,
        RateSource.HELD,
        RateSource.MEAN,
        RateSource.HELD,
    ]
