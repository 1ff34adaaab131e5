"""Sums over all topics of a source equal sums over the topics that a datastream selects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS, add_counts, latency_bucket
from mirror.model.topics import EVERY_TOPIC, TopicSelection
from monitor.adapters.subjects import groups_of_one
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_records
from monitor.latency import ObjectiveSubject, Observations, Source, observed
from monitor.measurement_sums import PartitionLag, observations
from monitor.objectives.alone import SETTLED_MS, SourcesAlone
from monitor.objectives.history import History, key_of, wanted_of
from monitor.objectives.past import TopicLatencySums

BEGIN_MS = 1_795_000_020_000
TOPICS = "abc"
SELECTIONS = [TopicSelection(text) for text in ("a", "a|b", "b|c", ".*")]
NAMES = [DatastreamName(name) for name in ("orders", "clicks", "views")]
GROUPS = ["one", "two"]
OBJECTIVE = Objective(1_000, 99.0)
WINDOWS = (60, 300)


class Row(NamedTuple):
    """Measurement of a topic: number of records with that latency, while one has waited for `lag_ms`."""

    at_ms: int
    source: Source
    topic: str
    records: int
    latency_ms: int
    lag_ms: int


class Stored:
    """Rows that are summed as requested. Satisfies `Measurements` and `Past`."""

    def __init__(self) -> None:
        self.rows: list[Row] = []

    def _counts(
        self, since_ms: int, until_ms: int, together: Collection[Source]
    ) -> dict[tuple[Source, str], tuple[int, ...]]:
        own: dict[tuple[Source, str], list[Sequence[int]]] = defaultdict(list)
        for row in self.rows:
            if since_ms < row.at_ms <= until_ms:
                place = row.source, EVERY_TOPIC if row.source in together else row.topic
                own[place].append(_histogram(row))
        return {place: tuple(add_counts(counts)) for place, counts in own.items()}

    def seen(self, now_ms: int, window_ms: int, together: Collection[Source]) -> Observations:
        counts = self._counts(now_ms - window_ms, now_ms, together)
        lags = [
            PartitionLag(row.source, row.topic, 1, row.lag_ms, now_ms, 5_000)
            for row in self.rows
            if now_ms - window_ms < row.at_ms <= now_ms
        ]
        arrived = [(*source, topic, sum(each), *each) for (source, topic), each in counts.items()]
        return observations(arrived, lags, now_ms)

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        counts = self._counts(*piece, together)
        stale = {
            age: {
                (*row.source, row.topic): row.lag_ms / 1_000
                for row in self.rows
                if row.lag_ms > age and piece.since_ms < row.at_ms <= piece.until_ms
            }
            for age in milliseconds
        }
        return TopicLatencySums(
            [(*source, topic) for source, topic in counts],
            [sum(one) for one in counts.values()],
            {age: [late_records(one, age) for one in counts.values()] for age in milliseconds},
            stale,
        )


@cache
def _histogram(row: Row) -> tuple[int, ...]:
    return tuple(row.records * (at == latency_bucket(row.latency_ms)) for at in range(LATENCY_BUCKETS))


class Time(NamedTuple):
    """Some evaluations with the same definitions: group, selection, and whether each is judged."""

    defined: Mapping[DatastreamName, tuple[str, TopicSelection, bool]]
    figures: Sequence[tuple[int, int, int]]
    repeats: int


definitions = st.dictionaries(
    st.sampled_from(NAMES),
    st.tuples(st.sampled_from(GROUPS), st.sampled_from(SELECTIONS), st.booleans()),
    max_size=3,
)
figures = st.lists(
    st.tuples(st.integers(0, 500), st.sampled_from([5, 900, 70_000]), st.sampled_from([0, 2_000, 30_000])),
    min_size=6,
    max_size=6,
)
histories = st.lists(st.builds(Time, definitions, figures, st.integers(1, 14)), min_size=1, max_size=4)


@given(histories, st.sampled_from([0, 300]))
def test_sums_over_all_topics_say_the_same_as_those_over_what_is_selected(
    history: list[Time], pause: int
) -> None:
    stored, alone, now_ms = Stored(), SourcesAlone(), BEGIN_MS
    past, plain = History(stored), History(stored)
    selected: dict[tuple[Source, str], int] = {}
    for number, look in enumerate(one for one in history for _ in range(one.repeats)):
        now_ms += (30 + pause * (number == 3)) * 1_000
        for group, selection, _ in look.defined.values():
            selected |= {(Source(group, "east"), one): now_ms for one in TOPICS if selection.matches(one)}
        stored.rows = [one for one in stored.rows if one.at_ms > now_ms - 600_000] + [
            Row(now_ms, source, topic, *look.figures[at % 6])
            for at, ((source, topic), last_ms) in enumerate(selected.items())
            if now_ms - last_ms < SETTLED_MS
        ]
        sole = groups_of_one((group for group, *_ in look.defined.values()), is_whole=True)
        subjects = {
            name: ObjectiveSubject(
                None, Source(group, "east"), selection, objectives=(OBJECTIVE,), is_alone=group in sole
            )
            for name, (group, selection, is_judged) in look.defined.items()
            if is_judged
        }
        alone.update(subjects.values(), now_ms)
        for seconds in WINDOWS:
            apart = stored.seen(now_ms, seconds * 1_000, ())
            summed = stored.seen(now_ms, seconds * 1_000, alone.since(now_ms - seconds * 1_000))
            for one in subjects.values():
                assert observed(one, summed) == observed(one, apart)
        wanted = wanted_of(subjects.values())
        past.refresh(now_ms, wanted, WINDOWS, 1_000, alone)
        plain.refresh(now_ms, wanted, WINDOWS, 1_000)
        for one in subjects.values():
            known, expected = (each.totals(key_of(one, OBJECTIVE)) for each in (past, plain))
            for seconds in WINDOWS:
                tally, other = known[seconds], expected[seconds]
                assert tally is not None
                assert other is not None
                assert tuple(tally) == pytest.approx(tuple(other))


def test_topics_are_told_apart_until_what_was_selected_before_is_over() -> None:
    alone, source = SourcesAlone(), Source("orders", "east")
    subject = ObjectiveSubject(None, source, TopicSelection("a"), is_alone=True)
    moments = [BEGIN_MS + 10_000 * number for number in range(60)]
    known = []
    for now_ms in moments:
        alone.update([subject], now_ms)
        known.append(source in alone.since(now_ms - 60_000))
    first = (SETTLED_MS + 60_000) // 10_000
    assert known == [number >= first for number in range(60)]
    alone.update([subject], moments[-1] + 600_000)
    assert not alone.since(moments[-1] + 600_000), "known despite a time without evaluations"


def test_the_group_of_a_definition_that_is_damaged_may_be_any() -> None:
    assert groups_of_one(["a", "b", "b"], is_whole=True) == {"a"}
    assert groups_of_one(["a", "b", "b"], is_whole=False) == frozenset()
