"""Who fell silent and who is known in part; one impossible time decides nothing for the others."""

from __future__ import annotations

from mirror.model.load import PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.loads import PartitionRates
from pinot.paging import Grain
from pinot.rollups import HOUR_MS
from pinot.time_range import TimeRange
from pmp.rhythm import Rhythm, marked, rhythm_of
from tests.unit.pmp.test_rates import PLAIN

NOW = 1_795_000_000_000
WINDOW = TimeRange.up_to(NOW, 600_000)
ROUND_MS = 60_000


def regular(number: int = 0, *, missed: int = 0, known: int = 10, **other: int) -> PartitionRates:
    """A partition with a sample a minute; `missed` at the end, the growth of `known` of them."""
    steady = PLAIN._replace(
        kafka_partition=number,
        samples=10 - missed,
        newest_ms=NOW - missed * ROUND_MS,
        oldest_ms=NOW - 9 * ROUND_MS,
        begin_ms=NOW - 10 * ROUND_MS,
        growth_ms=(known - missed) * ROUND_MS,
    )
    return steady._replace(**other)  # type: ignore[arg-type]


def rhythm(*odd: PartitionRates, usual: int = 5, window: TimeRange = WINDOW) -> Rhythm:
    return rhythm_of([*(regular() for _ in range(usual)), *odd], window, Grain.SAMPLES)


def test_a_partition_that_missed_the_newest_round_is_held() -> None:
    one = rhythm(regular(missed=1))
    assert (one.interval_ms, one.newest_ms) == (ROUND_MS, NOW)
    assert not one.is_held(regular())
    assert one.is_held(regular(missed=1))
    assert not one.is_held(regular(newest_ms=NOW - 5_000))  # the same round, read a little sooner


def test_a_cluster_that_is_silent_as_a_whole_is_held_after_three_rounds() -> None:
    still = [regular(n, newest_ms=NOW, oldest_ms=NOW - 9 * ROUND_MS) for n in range(3)]
    for later_ms, is_held in ((2 * ROUND_MS, False), (5 * ROUND_MS, True)):
        one = rhythm_of(still, TimeRange.up_to(NOW + later_ms, 600_000), Grain.SAMPLES)
        assert one.is_held(still[0]) is is_held


def test_a_hole_or_a_long_growth_from_before_makes_a_load_partial() -> None:
    one = rhythm()
    assert not one.is_partial(regular())
    assert one.is_partial(regular(known=9))
    returned = regular(oldest_ms=NOW - 8 * ROUND_MS, begin_ms=NOW - 30 * ROUND_MS)
    assert one.is_partial(returned)
    inside = regular(samples=3, oldest_ms=NOW - 9 * ROUND_MS)  # a gap whose both ends are known
    assert not one.is_partial(inside)


def test_a_young_cluster_is_not_partial_but_a_young_partition_is() -> None:
    young = regular(samples=3, oldest_ms=NOW - 2 * ROUND_MS, begin_ms=NOW - 2 * ROUND_MS, known=2)
    assert not rhythm_of([young, young], WINDOW, Grain.SAMPLES).is_partial(young)
    assert rhythm().is_partial(young)


def test_few_impossible_times_change_nothing() -> None:
    odd = regular(newest_ms=NOW + 500_000, oldest_ms=NOW - 500_000_000, begin_ms=0)
    one = rhythm(odd, usual=200)
    assert not one.is_held(regular())
    assert not one.is_partial(regular())


def test_single_samples_have_no_rhythm_and_hours_have_theirs() -> None:
    single = regular(samples=1, oldest_ms=NOW, begin_ms=NOW, known=0)
    one = rhythm_of([single], WINDOW, Grain.SAMPLES)
    assert (one.interval_ms, one.is_held(single), one.is_partial(single)) == (0.0, False, False)
    hours = rhythm_of([single], TimeRange.up_to(NOW, 24 * HOUR_MS), Grain.HOURS)
    assert not hours.is_held(single._replace(newest_ms=NOW - HOUR_MS // 4))
    assert hours.is_held(single._replace(newest_ms=NOW - HOUR_MS))


def test_only_slopes_become_partial_and_anything_becomes_held() -> None:
    whole, hole, silent = regular(0), regular(1, known=5), regular(2, missed=4)
    mean, held_mean = regular(3, known=0), regular(4, missed=3, known=3)
    rates = [whole, hole, silent, mean, held_mean]
    sources = [RateSource.SLOPE] * 3 + [RateSource.MEAN] * 2
    loads = {
        TopicPartition("t", number): PartitionLoad(1.0, rate_source=source)
        for number, source in enumerate(sources)
    }
    found = marked(loads, rates, rhythm(*rates))
    assert [load.rate_source for load in found.values()] == [
        RateSource.SLOPE,
        RateSource.PARTIAL,
        RateSource.HELD,
        RateSource.MEAN,
        RateSource.HELD,
    ]
