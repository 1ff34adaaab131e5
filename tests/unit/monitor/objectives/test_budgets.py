"""Test how often error budgets are judged again."""

from __future__ import annotations

from collections.abc import Collection

from mirror.errors import AnalyticsError
from mirror.model.datastreams.objectives import Objective
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicSelection
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.rates import read_rule
from monitor.latency import ObjectiveSubject, Source
from monitor.objectives.budgets import Budgets
from monitor.objectives.past import TopicLatencySums
from tests.fakes.clock import ManualClock

SOURCE, ORDERS = Source("orders", "east"), DatastreamName("orders")
SUBJECT = ObjectiveSubject(
    None, SOURCE, TopicSelection("t"), objectives=(Objective(1_000, 99.0, period_days=1),)
)
RULE = read_rule("10 over 1 h and 5 m")


class Constant:
    """Past with the same fraction of late records in every piece. Satisfies `PastMeasurements`."""

    def __init__(self, late_share: float) -> None:
        self._late = 1_000 * late_share
        self.questions = 0

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        self.questions += 1
        late = {age: [self._late] for age in milliseconds}
        return TopicLatencySums([(*SOURCE, "t")], [1_000], late, {})


def looks_again(late_share: float, after_seconds: float) -> bool:
    past, clock = Constant(late_share), ManualClock()
    budgets = Budgets(past, clock, [RULE], 100, 30)
    budgets.judge({ORDERS: SUBJECT})
    before = past.questions
    clock.advance(after_seconds)
    budgets.judge({ORDERS: SUBJECT})
    return past.questions > before


def test_it_looks_more_often_while_an_alert_of_what_burns_would_last() -> None:
    """At a target of 99 % a late fraction of 0.1 is the rule's rate, and an alert lasts down to 0.075."""
    assert [looks_again(share, 10.0) for share in (0.0, 0.07, 0.08, 0.2)] == [False, False, True, True]
    assert all(looks_again(share, 30.0) for share in (0.0, 0.07, 0.08, 0.2))


class LastHour(Constant):
    """Past without anything older than an hour."""

    def __init__(self, late_share: float, clock: ManualClock) -> None:
        super().__init__(late_share)
        self._clock = clock
        self.is_away = False

    def past(
        self, piece: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        found = super().past(piece, milliseconds, together)
        if self.is_away or piece.since_ms < self._clock.now_ms() - 4_200_000:
            raise AnalyticsError("measurements older than an hour require Pinot")
        return found


def test_rules_of_an_hour_burn_where_no_more_can_be_read() -> None:
    clock = ManualClock()
    past = LastHour(0.2, clock)
    for days, sentence in ((30, "unknown"), (0, "Pinot")):
        (budget,) = Budgets(past, clock, [RULE], 100, days).judge({ORDERS: SUBJECT})[ORDERS]
        assert [burn.rule for burn in budget.firing] == [RULE]
        assert budget.left is None
        left, _, burns = budget.sentence.partition("; burns ")
        assert sentence in left
        assert burns.startswith("20x in 5 m, 20x in 1 h")
    long = read_rule("2 over 6 h and 30 m")
    (budget,) = Budgets(past, clock, [RULE, long], 100, 30).judge({ORDERS: SUBJECT})[ORDERS]
    assert [burn.rule for burn in budget.firing] == [RULE]
    assert "? in 6 h" in budget.sentence


def test_only_where_nothing_can_be_read_the_next_look_waits_for_a_minute() -> None:
    clock = ManualClock()
    past = LastHour(0.0, clock)
    budgets = Budgets(past, clock, [RULE], 100, 30)
    for is_away, after, looks in ((False, 30, True), (True, 30, True), (True, 59, False), (True, 1, True)):
        past.is_away, before = is_away, past.questions
        clock.advance(after)
        budgets.judge({ORDERS: SUBJECT})
        assert (past.questions > before) == looks
