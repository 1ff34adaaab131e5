"""Times at which records were late, and the bad time of an incident."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.datastreams.datastream import LatencyObjective
from mirror.model.topics import TopicSelection
from monitor.latency import ObjectiveSubject, Source
from monitor.objectives.late_times import (
    BadTime,
    Lateness,
    LateSpan,
    TimeInterval,
    TopicLateness,
    is_recent,
    lateness_of,
    union,
)

SOURCE: Final = Source("orders", "east")
SUBJECT: Final = ObjectiveSubject(LatencyObjective(3_000), SOURCE, TopicSelection("t|ü"))


def late(topics: dict[str, TopicLateness], limit_ms: int = 3_000) -> Lateness:
    return lateness_of(SUBJECT, {SOURCE: topics, Source("other", "east"): {"t": waited(0, 99_000)}}, limit_ms)


def waited(oldest_ms: int, until_ms: int, recent_age_ms: int = 0) -> TopicLateness:
    return TopicLateness([LateSpan(oldest_ms, until_ms, until_ms - oldest_ms)], recent_age_ms)


def arrived_old(age_ms: int) -> TopicLateness:
    """Return a topic whose records were late before they were at the source."""
    return TopicLateness([LateSpan(19_000, 20_000, age_ms)], age_ms)


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        ({}, Lateness((), True)),
        ({"t": waited(10_000, 13_000, 3_000)}, Lateness((), True)),
        ({"t": waited(10_000, 13_001, 3_001)}, Lateness(((13_000, 13_001),), False)),
        ({"t": waited(10_000, 20_000)}, Lateness(((13_000, 20_000),), True)),
        (
            {"t": waited(10_000, 20_000), "ü": waited(18_000, 29_500, 11_500)},
            Lateness(((13_000, 20_000), (21_000, 29_500)), False),
        ),
        ({"of another": waited(0, 90_000, 90_000)}, Lateness((), True)),
        ({"t": arrived_old(4_096)}, Lateness((), False)),
        ({"t": arrived_old(3_000)}, Lateness((), True)),
    ],
)
def test_records_are_late_from_the_objective_until_they_arrive(
    topics: dict[str, TopicLateness], found: Lateness
) -> None:
    """It is over once each partition has reported again."""
    assert late(topics) == found


@pytest.mark.parametrize(("newest_ms", "found"), [(0, True), (7_499, True), (7_500, False), (60_000, False)])
def test_lateness_is_recent_until_the_partition_has_reported_again(newest_ms: int, found: bool) -> None:
    assert is_recent(0, newest_ms, 5_000) is found


def test_times_may_be_of_any_size() -> None:
    assert is_recent(10**400, 10**400 + 1, 10**400)


intervals = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


def seconds_in(found: list[TimeInterval] | tuple[TimeInterval, ...], since: int = 0) -> set[int]:
    return {moment for first, last in found for moment in range(max(first, since), last)}


@given(intervals)
def test_a_union_has_each_moment_once(found: list[TimeInterval]) -> None:
    joined = union(found)
    assert seconds_in(joined) == seconds_in(found)
    assert sum(last - first for first, last in joined) == len(seconds_in(found))
    assert all(before[1] < after[0] for before, after in pairwise(joined))


@given(st.lists(intervals, max_size=5), st.integers(0, 60), st.floats(0, 1e6))
def test_bad_time_counts_each_moment_once_and_none_of_an_earlier_incident(
    steps: list[list[TimeInterval]], since: int, counted: float
) -> None:
    bad = BadTime(since, counted)
    for step in steps:
        bad = bad.adding(step)
    moments = seconds_in([one for step in steps for one in step], since)
    assert bad.seconds == pytest.approx(counted + len(moments) / 1_000)


def test_an_incident_of_a_year_keeps_a_bounded_number_of_intervals() -> None:
    bad = BadTime()
    for number in range(5_000):
        bad = bad.adding([(10_000 * number, 10_000 * number + 1_000)])
    assert bad.seconds == 5_000
    assert len(bad.intervals) <= 500
