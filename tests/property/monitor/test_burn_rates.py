"""Budgets and burn rates over any history: sums, monotony, alerts that end, datastreams with few records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mirror.errors import Unreachable
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.latency import LATENCY_BUCKETS, percentile_ms
from mirror.model.topics import TopicSelection
from monitor.burn.pieces import TimeRangePiece, looked_at_seconds, pieces_of
from monitor.burn.rates import DAY_SECONDS, Budget, judge_budget, read_rule
from monitor.burn.tally import LatencyTally, bad_share, late_records
from monitor.latency import ObjectiveSubject, Source
from monitor.objectives.budgets import Budgets
from monitor.objectives.history import History, wanted_of
from monitor.objectives.past import RequiredCount, TopicLatencySums
from monitor.settings import MonitorSettings
from tests.examples import examples
from tests.fakes.clock import ManualClock

MINUTE_MS = 60_000
RULES = [read_rule(text) for text in MonitorSettings().burn_rates]
WINDOWS = sorted({seconds for one in RULES for seconds in (one.long_seconds, one.short_seconds)})
OBJECTIVE = Objective(1_000, 99.5, period_days=7)
SOURCE, ORDERS = Source("orders", "east"), DatastreamName("orders")
SUBJECT = ObjectiveSubject(None, SOURCE, TopicSelection("t"), objectives=(OBJECTIVE,))
BEGIN_MS = 1_795_000_000_000 // MINUTE_MS * MINUTE_MS

histograms = st.lists(st.integers(0, 1_000), min_size=LATENCY_BUCKETS, max_size=LATENCY_BUCKETS)
tallies = st.builds(
    lambda records, share, stale: LatencyTally(records, records * share, stale),
    st.integers(0, 10**6),
    st.floats(0, 1),
    st.floats(0, 600),
)


class Recorded:
    """Measurements at the end of each minute: records on time, records late, seconds of silence.

    Counts queries.
    """

    def __init__(self) -> None:
        self.minutes: dict[int, tuple[int, int, float]] = {}
        self.asked: Counter[TimeRangePiece] = Counter()
        self.is_away = False

    def within(self, piece: TimeRangePiece) -> tuple[int, int, float]:
        found = [one for at_ms, one in self.minutes.items() if piece.since_ms < at_ms <= piece.until_ms]
        on_time, late, stale = zip(*found, strict=True) if found else ((), (), ())
        return sum(on_time), sum(late), float(sum(stale))

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        if self.is_away:
            raise Unreachable("away")
        self.asked[piece] += 1
        good, late, stale = self.within(piece)
        return TopicLatencySums(
            [(*SOURCE, "t")] if self.minutes else [],
            [good + late] if self.minutes else [],
            dict.fromkeys(milliseconds, [float(late)] if self.minutes else []),
            dict.fromkeys(milliseconds, {(*SOURCE, "t"): stale} if self.minutes else {}),
        )


@given(st.integers(10**12, 2 * 10**12), st.integers(60, 90 * DAY_SECONDS))
def test_pieces_are_the_window_without_a_gap_and_whole_steps_but_for_the_last(
    now_ms: int, seconds: int
) -> None:
    pieces = pieces_of(now_ms, seconds)
    assert pieces[-1].until_ms == now_ms
    assert all(one.until_ms == other.since_ms for one, other in pairwise(pieces))
    early, is_short = now_ms - seconds * 1_000 - pieces[0].since_ms, seconds * 1_000 < 24 * MINUTE_MS
    assert (early == -min(20_000, seconds * 250)) if is_short else (0 <= early < seconds * 1_000 / 24)
    assert now_ms - pieces[0].since_ms >= looked_at_seconds(seconds) * 1_000
    if is_short:
        assert now_ms - pieces[0].since_ms == looked_at_seconds(seconds) * 1_000
        assert pieces[0].until_ms - pieces[0].since_ms <= MINUTE_MS
    for since_ms, until_ms in pieces[1:-1] if is_short else pieces[:-1]:
        assert (until_ms - since_ms) in (MINUTE_MS, 10 * MINUTE_MS, 60 * MINUTE_MS, 1_440 * MINUTE_MS)
        assert since_ms % (until_ms - since_ms) == 0
    assert len(pieces) < 200


@given(histograms, st.integers(1, 10**6), st.integers(1, 10**6))
def test_fewer_records_are_late_for_a_longer_time(counts: list[int], one: int, other: int) -> None:
    shorter, longer = sorted((one, other))
    assert sum(counts) >= late_records(counts, shorter) >= late_records(counts, longer) >= 0


@given(histograms, st.floats(1, 99))
def test_as_many_are_late_as_the_percentile_says(counts: list[int], percentile: float) -> None:
    assume(sum(counts) > 0)
    quantile = percentile_ms(counts, percentile)
    assert quantile is not None
    assume(2 <= quantile < 262_144)
    above, below = late_records(counts, int(quantile)), late_records(counts, int(quantile) + 1)
    assert below - 1e-6 <= sum(counts) * (1 - percentile / 100) <= above + 1e-6


@given(tallies, st.integers(0, 1_000), st.floats(0, 100), st.integers(60, 10_000))
def test_more_that_is_bad_is_never_better(tally: LatencyTally, late: int, stale: float, seconds: int) -> None:
    before = bad_share(tally, seconds, 100)
    assert 0 <= before <= 1
    worse = LatencyTally(tally.records, min(tally.late + late, tally.records), tally.stale_seconds + stale)
    assert bad_share(worse, seconds, 100) >= before
    tighter = judge_budget(
        Objective(1, 99.9), {60: tally, 120: tally}, [read_rule("1 over 2 m and 1 m")], 100, 30
    )
    looser = judge_budget(
        Objective(1, 99.0), {60: tally, 120: tally}, [read_rule("1 over 2 m and 1 m")], 100, 30
    )
    for one, other in zip(tighter.burns, looser.burns, strict=True):
        assert one.long_rate is not None
        assert other.long_rate is not None
        assert one.long_rate >= other.long_rate


@given(st.integers(0, 99), st.floats(0, 1))
def test_a_quiet_datastream_has_no_alert_however_late_its_few_records_were(
    records: int, share: float
) -> None:
    tally = LatencyTally(records, records * share, 0.0)
    windows: dict[int, LatencyTally | None] = dict.fromkeys([*WINDOWS, 30 * DAY_SECONDS], tally)
    budget = judge_budget(Objective(1_000, 99.9), windows, RULES, 100, 30)
    assert (budget.left, budget.firing) == (1.0, ())


minutes = st.lists(
    st.sampled_from([(0, 0, 0.0), (500, 0, 0.0), (0, 500, 60.0), (0, 0, 60.0), (450, 50, 20.0), (1, 1, 0.0)]),
    min_size=1,
    max_size=30,
)


@given(minutes, st.sampled_from([(0, 0, 0.0), (500, 0, 0.0)]))
def test_an_alert_of_two_windows_ends_after_the_short_one(
    history: list[tuple[int, int, float]], after: tuple[int, int, float]
) -> None:
    recorded, clock = Recorded(), ManualClock()
    clock.advance(BEGIN_MS / 1_000 - clock.now_ms() / 1_000)
    begin = clock.now_ms() // MINUTE_MS * MINUTE_MS
    calm = [after] * 32
    for number, minute in enumerate([*history, *calm], 1):
        recorded.minutes[begin + number * MINUTE_MS] = minute
    budgets = Budgets(recorded, clock, RULES, 100, 30)
    clock.advance((begin - clock.now_ms()) / 1_000 + 60 * len(history))

    def firing() -> set[str]:
        (budget,) = budgets.judge({ORDERS: SUBJECT})[ORDERS]
        return {burn.rule.text for burn in budget.firing}

    clock.advance(7 * 60.0)
    assert "14.4 over 1 h and 5 m" not in firing()
    clock.advance(25 * 60.0)
    assert firing() <= {"1 over 3 d"}


@settings(max_examples=examples(25))
@given(
    st.sampled_from([99.0, 99.5, 99.9]),
    st.integers(110, 140),
    st.integers(0, 4_999),
    st.integers(0, 3_000),
    st.sampled_from([(0, 500, 5.0), (0, 0, 5.0)]),
)
def test_an_alert_is_over_within_its_short_window_after_its_cause_however_looks_and_reports_fall(
    target: float, reports: int, phase_ms: int, evaluation_ms: int, report: tuple[int, int, float]
) -> None:
    """Lanes report every 5 s; the monitor starts an evaluation 10 s after the end of the previous one."""
    recorded, clock = Recorded(), ManualClock()
    clock.advance((BEGIN_MS - clock.now_ms()) / 1_000)
    subject = replace(SUBJECT, objectives=(Objective(1_000, target, period_days=7),))
    cause_ends_ms = BEGIN_MS + reports * 5_000
    for number in range(1, reports + 100):
        until_ms = BEGIN_MS + number * 5_000 + phase_ms
        was_bad = until_ms - 5_000 < cause_ends_ms
        recorded.minutes[until_ms] = report if was_bad else (500, 0, 0.0)
    budgets = Budgets(recorded, clock, RULES[:1], 100, 30)
    was_firing, ended_ms = False, 0
    while clock.now_ms() < cause_ends_ms + 400_000:
        (budget,) = budgets.judge({ORDERS: subject})[ORDERS]
        lasts = bool(budget.lasting if was_firing else budget.firing)
        if was_firing and not lasts:
            ended_ms = clock.now_ms() + evaluation_ms
        was_firing = lasts
        clock.advance(10.0 + evaluation_ms / 1_000)
    assert ended_ms, "the alert has not fired, or has not ended"
    assert cause_ends_ms + 220_000 < ended_ms <= cause_ends_ms + 300_000


def test_silence_is_an_alert_when_it_has_used_up_what_the_rule_allows() -> None:
    """All records are late: 200 times the rate of the budget, so 14.4 of an hour is reached in 5 minutes."""
    recorded, clock = Recorded(), ManualClock()
    clock.advance((BEGIN_MS - clock.now_ms()) / 1_000)
    begin = clock.now_ms()
    for number in range(-360, 1):
        recorded.minutes[begin + number * MINUTE_MS] = (500, 0, 0.0)
    budgets = Budgets(recorded, clock, RULES, 100, 30)
    fired = []
    for number in range(1, 11):
        recorded.minutes[begin + number * MINUTE_MS] = (0, 0, 60.0)
        clock.advance(60.0)
        (budget,) = budgets.judge({ORDERS: SUBJECT})[ORDERS]
        fired.append(bool(budget.firing))
    assert fired == [False] * 4 + [True] * 6


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500), st.floats(0, 60)), max_size=120))
def test_what_a_window_has_is_the_sum_of_what_was_measured_in_it(
    history: list[tuple[int, int, float]],
) -> None:
    recorded = Recorded()
    wanted = wanted_of([SUBJECT])
    (one,) = wanted
    for number, minute in enumerate(history, 1):
        recorded.minutes[BEGIN_MS + number * MINUTE_MS] = minute
    past, now_ms = History(recorded), BEGIN_MS
    for _ in range(len(history) + 2):
        past.refresh(now_ms, wanted, WINDOWS, 10_000)
        for seconds in WINDOWS:
            pieces = pieces_of(now_ms, seconds)
            found = [recorded.within(piece) for piece in pieces]
            total = past.totals(one)[seconds]
            assert total is not None
            stale = sum(min(one[2], each.length_ms / 1_000) for one, each in zip(found, pieces, strict=True))
            assert total.records == sum(good + late for good, late, _ in found)
            assert total.late == pytest.approx(sum(late for _, late, _ in found))
            assert total.stale_seconds == pytest.approx(stale)
        now_ms += MINUTE_MS
    assert max(recorded.asked.values()) <= 2, "a complete piece was queried again after its first changes"


def test_a_part_that_could_not_be_read_leaves_its_windows_unknown_and_the_others_known() -> None:
    recorded = Recorded()
    (one,) = wanted = wanted_of([SUBJECT])
    past = History(recorded)
    past.refresh(BEGIN_MS, wanted, WINDOWS, 5)
    assert [past.totals(one)[seconds] is None for seconds in (300, 3 * DAY_SECONDS)] == [False, True]
    recorded.is_away = True
    past.refresh(BEGIN_MS + 90_000, wanted, WINDOWS, 5)
    assert "away" in past.problem
    assert all(past.totals(one)[seconds] is None for seconds in WINDOWS)
    recorded.is_away = False
    past.refresh(BEGIN_MS + 90_000, wanted, WINDOWS, 1_000)
    assert all(past.totals(one)[seconds] == LatencyTally() for seconds in WINDOWS)


def test_a_datastream_that_is_new_takes_no_knowledge_from_the_others() -> None:
    recorded = Recorded()
    (one,) = wanted = wanted_of([SUBJECT])
    past = History(recorded)
    past.refresh(BEGIN_MS, wanted, WINDOWS, 1_000)
    new = RequiredCount(Source("clicks", "east"), TopicSelection("u"), 5)
    past.refresh(BEGIN_MS, wanted | {new}, WINDOWS, 0)
    assert past.totals(one)[WINDOWS[-1]] == LatencyTally()
    assert past.totals(new)[WINDOWS[-1]] is None
    past.refresh(BEGIN_MS, wanted | {new}, WINDOWS, 1_000)
    assert past.totals(new)[WINDOWS[-1]] == LatencyTally()
    asked = sum(recorded.asked.values())
    past.refresh(BEGIN_MS, wanted, WINDOWS, 1_000)
    assert sum(recorded.asked.values()) <= asked + 1, "an unneeded count is queried"


def test_silence_uses_up_the_budget_and_the_late_records_after_it_no_second_time() -> None:
    def left(tally: LatencyTally) -> float:
        found: Budget = judge_budget(Objective(1_000, 99.5), {30 * DAY_SECONDS: tally}, [], 100, 30)
        assert found.left is not None
        return found.left

    month, outage = 30 * DAY_SECONDS, 3_600
    silent = LatencyTally(1_000 * (month - outage), 0.0, outage)
    delivered = LatencyTally(1_000 * month, 1_000.0 * outage, outage)
    assert left(silent) == pytest.approx(left(delivered)) == pytest.approx(1 - outage / month / 0.005)
