"""Start of a high load, and division of time into steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.topics import TopicPartition
from pinot.history.points import HOUR_MS, HighLoad, LatencyStep, LoadHour, begun, high_since, merged, step_for
from pinot.time_range import TimeRange

HOUR = 1_795_000_000_000 // HOUR_MS * HOUR_MS


def hours(*loads: float | None, begin_ms: int | None = None) -> list[LoadHour]:
    """Return one hour for each load that is not None, starting at `HOUR`."""
    return [
        LoadHour(HOUR + at * HOUR_MS, HOUR + at * HOUR_MS + (begin_ms or 0), load, load, load)
        for at, load in enumerate(loads)
        if load is not None
    ]


@pytest.mark.parametrize(
    ("loads", "since"),
    [
        ((), None),
        ((1.0,), None),
        ((9.0, 1.0), None),
        ((1.0, 9.0), HighLoad(HOUR + HOUR_MS, False)),
        ((1.0, 5.0, 9.0), HighLoad(HOUR + HOUR_MS, False)),
        ((9.0, 9.0), HighLoad(HOUR, True)),
        ((9.0, 1.0, 9.0), HighLoad(HOUR + 2 * HOUR_MS, False)),
        ((9.0, None, 9.0), HighLoad(HOUR + 2 * HOUR_MS, True)),
        ((1.0, None, 9.0), HighLoad(HOUR + 2 * HOUR_MS, True)),
    ],
)
def test_a_load_is_high_since_the_first_hour_of_its_last_run(
    loads: tuple[float | None, ...], since: HighLoad | None
) -> None:
    assert high_since(hours(*loads), 5.0) == since


def test_a_run_begins_with_the_first_sample_of_its_first_hour() -> None:
    assert high_since(hours(9.0, begin_ms=600_000), 5.0) == HighLoad(HOUR + 600_000, True)


def test_a_sum_is_high_since_nobody_knows_when() -> None:
    assert high_since([LoadHour(HOUR, HOUR, 9.0, None, None)], 5.0) is None


@given(st.lists(st.one_of(st.none(), st.floats(0, 10)), max_size=12))
def test_every_hour_from_there_on_is_high_and_the_one_before_is_not(loads: list[float | None]) -> None:
    found = high_since(hours(*loads), 5.0)
    known = {one.hour_ms: one for one in hours(*loads)}
    newest = max(known, default=None)
    if newest is None or (known[newest].p95 or 0.0) < 5.0:
        assert found is None
        return
    assert found is not None
    for hour in range(found.since_ms, newest + 1, HOUR_MS):
        assert known[hour].mean >= 5.0
    before = known.get(found.since_ms - HOUR_MS)
    assert found.is_longer == (before is None)
    assert before is None or before.mean < 5.0


def test_samples_are_believed_where_a_rollup_has_the_same_hour() -> None:
    place, other = TopicPartition("t", 0), TopicPartition("t", 1)
    found = merged({place: hours(1.0, 2.0)}, {place: hours(None, 3.0, 4.0), other: hours(7.0)})
    assert [one.mean for one in found[place]] == [1.0, 3.0, 4.0]
    assert [one.mean for one in found[other]] == [7.0]


@given(st.integers(0, 10**13), st.integers(1, 40 * 24 * HOUR_MS), st.integers(2, 1_000))
def test_steps_cover_the_range_and_are_never_more_than_wanted(begin: int, length: int, most: int) -> None:
    when = TimeRange(begin, begin + length)
    step = step_for(when, most)
    found = begun(when, step)
    assert len(found) <= most
    assert found[0] <= when.since_ms < found[0] + step
    assert found[-1] < when.until_ms <= found[-1] + step


def test_without_batches_no_stage_is_known() -> None:
    nothing = LatencyStep(HOUR, 0, 0, (0.0, 0.0, 0.0, 0.0), 5, (0,) * LATENCY_BUCKETS)
    assert (nothing.mean_stages_ms, nothing.p50_ms, nothing.p99_ms) == ((None,) * 4, None, None)
    counts = [0] * LATENCY_BUCKETS
    counts[latency_bucket(100)] = 10
    some = LatencyStep(HOUR, 10, 2, (8.0, 4.0, 2.0, 6.0), None, tuple(counts))
    assert some.mean_stages_ms == (4.0, 2.0, 1.0, 3.0)
    assert some.p99_ms is not None
    assert 64 < some.p99_ms <= 128
