"""Budgets from columns and stored sums equal the plain rules over all measurements, at any time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.errors import Unreachable
from mirror.model.latency import LATENCY_BUCKETS, add_counts, latency_bucket
from mirror.model.topics import TopicSelection
from monitor.burn.pieces import TimeRangePiece, pieces_of
from monitor.burn.tally import LatencyTally, late_records
from monitor.latency import Source
from monitor.objectives.history import History
from monitor.objectives.past import RequiredCount, TopicLatencySums

BEGIN_MS = 1_795_000_000_000
ORDERS, CLICKS = Source("orders", "east"), Source("clicks", "west")
WANTED = [
    RequiredCount(ORDERS, TopicSelection("a|b"), 100),
    RequiredCount(ORDERS, TopicSelection("b|c"), 100),
    RequiredCount(ORDERS, TopicSelection("a|b"), 3_000),
    RequiredCount(CLICKS, TopicSelection("a"), 300_000),
]
WINDOWS = (300, 1_800, 3_600, 21_600, 259_200)
_ON_THE_WAY_MS = 20_000


class Row(NamedTuple):
    """Measurement of a topic at a time; visible in Pinot a little later."""

    at_ms: int
    source: Source
    topic: str
    latency_ms: int
    records: int
    stale_seconds: float

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(self.records * (at == latency_bucket(self.latency_ms)) for at in range(LATENCY_BUCKETS))


class Stored:
    """Rows that arrive late, from a store that may be down. A row without records and silence is neutral."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.now_ms = BEGIN_MS
        self.answers_left = 0

    def within(self, piece: TimeRangePiece, *, visible: bool) -> list[Row]:
        until_ms = self.now_ms - _ON_THE_WAY_MS if visible else self.now_ms
        return [one for one in self.rows if piece.since_ms < one.at_ms <= min(piece.until_ms, until_ms)]

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        self.answers_left -= 1
        if self.answers_left < 0:
            raise Unreachable("away")
        rows = self.within(piece, visible=True)
        places = sorted({(one.source, one.topic) for one in rows})
        own = [[one for one in rows if (one.source, one.topic) == place] for place in places]
        counts = [add_counts(row.counts for row in each) for each in own]
        stale = [sum(row.stale_seconds for row in each) for each in own]
        return TopicLatencySums(
            [(*source, topic) for source, topic in places],
            [sum(one) for one in counts],
            {age: [late_records(one, age) for one in counts] for age in milliseconds},
            {
                age: {(*place[0], place[1]): one for place, one in zip(places, stale, strict=True)}
                for age in milliseconds
            },
        )

    def plain(self, wanted: RequiredCount, seconds: int) -> LatencyTally:
        """Return the result of the rules for each piece of the window, from all visible rows."""
        parts = []
        for piece in pieces_of(self.now_ms, seconds):
            own = [
                one
                for one in self.within(piece, visible=True)
                if one.source == wanted.source and wanted.selection.matches(one.topic)
            ]
            counts = add_counts(one.counts for one in own)
            stale = [sum(one.stale_seconds for one in own if one.topic == topic) for topic in "abc"]
            length = (piece.until_ms - piece.since_ms) / 1_000
            late = late_records(counts, wanted.milliseconds)
            parts.append(LatencyTally(sum(counts), late, min(max(stale), length)))
        return LatencyTally(*map(sum, zip(*parts, strict=True)))


class Look(NamedTuple):
    """One refresh after some time, with new rows and wanted counts.

    `questions`: limit of queries for complete pieces; `answers`: queries until the store is down.
    """

    seconds: int
    rows: list[tuple[int, Source, str, int, int, float]]
    wanted: list[RequiredCount]
    questions: int
    answers: int


rows_of_a_look = st.tuples(
    st.integers(0, 7_200),
    st.sampled_from([ORDERS, CLICKS]),
    st.sampled_from("abc"),
    st.sampled_from([1, 90, 100, 101, 2_500, 3_000, 290_000, 10**6]),
    st.integers(0, 500),
    st.floats(0, 90),
)
looks = st.builds(
    Look,
    st.sampled_from([10, 30, 30, 30, 31, 60, 95, 600, 4_000]),
    st.lists(rows_of_a_look, max_size=4),
    st.lists(st.sampled_from(WANTED), min_size=1, unique=True),
    st.sampled_from([0, 3, 1_000, 1_000]),
    st.sampled_from([0, 2, 1_000, 1_000, 1_000]),
)


@given(st.lists(looks, min_size=1, max_size=8))
def test_what_is_known_of_a_window_is_what_the_plain_rules_say_of_it(history: list[Look]) -> None:
    stored = Stored()
    past = History(stored)
    for look in history:
        stored.now_ms += look.seconds * 1_000
        # Rows may only be as old as the transit time allows: earlier ones would have been visible before.
        oldest = stored.now_ms - look.seconds * 1_000 - _ON_THE_WAY_MS + 1
        stored.rows += [
            Row(max(stored.now_ms - ago * 1_000, oldest), source, topic, late, count, stale)
            for ago, source, topic, late, count, stale in look.rows
        ]
        stored.answers_left = look.answers
        past.refresh(stored.now_ms, frozenset(look.wanted), WINDOWS, look.questions)
        for one in look.wanted:
            for seconds, total in past.totals(one).items():
                if total is None:
                    assert look.questions < 1_000 or look.answers < 1_000, (
                        "unknown although every query was made and answered"
                    )
                    continue
                plain = stored.plain(one, seconds)
                assert total.records == plain.records
                assert total.late == pytest.approx(plain.late)
                assert total.stale_seconds == pytest.approx(plain.stale_seconds)


def test_minutes_that_a_longer_window_begins_with_later_are_not_asked_for_twice() -> None:
    stored, asked = Stored(), Counter[TimeRangePiece]()

    class Counted:
        """Counts queries."""

        def past(
            self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
        ) -> TopicLatencySums:
            asked[piece] += 1
            return stored.past(piece, milliseconds)

    past = History(Counted())
    for _ in range(240):
        stored.now_ms += 30_000
        stored.answers_left = 1_000
        past.refresh(stored.now_ms, frozenset(WANTED), WINDOWS[:3], 1_000)
    minutes = {piece: count for piece, count in asked.items() if piece.length_ms == 60_000}
    assert set(minutes.values()) == {1, 2}, "not queried exactly when new and when settled"


def test_the_time_that_a_clock_was_ahead_is_read_again() -> None:
    """Pinot had no measurements of that time yet."""
    stored, wanted = Stored(), frozenset(WANTED[:1])
    history, later_ms = History(stored), BEGIN_MS + 1_800_000
    for now_ms in (BEGIN_MS, BEGIN_MS + 3_600_000, BEGIN_MS):  # an hour ahead for a while
        stored.answers_left = 10_000
        history.refresh(now_ms, wanted, WINDOWS, 10_000)
    stored.answers_left, stored.now_ms = 10_000, later_ms
    stored.rows.append(Row(later_ms - 600_000, ORDERS, "a", 9_000, 50, 0.0))
    history.refresh(later_ms, wanted, WINDOWS, 10_000)
    assert all(history.totals(WANTED[0])[seconds] == LatencyTally(50, 50.0, 0.0) for seconds in WINDOWS[1:])
