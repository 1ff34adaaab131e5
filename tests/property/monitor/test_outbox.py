"""Notices sent to a receiver, over any history of alerts, outages and rejections."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from monitor.alerts.alert import AlertNotice
from monitor.alerts.deliveries.outbox import NEVER, Outbox, Schedule
from tests.examples import examples

NAMES = [f"{letter}{number}" for letter in "ab" for number in range(6)]
CAPACITY = 6
SCHEDULE = Schedule(5.0, 60.0, 40.0, CAPACITY, most_at_once=3)


def notice(name: str, starts_ms: int, ended_ms: int | None = None) -> AlertNotice:
    return AlertNotice({"alertname": name}, {}, "http://x", starts_ms, ended_ms)


class ReceiverMachine(RuleBasedStateMachine):
    """A receiver beside the outbox: it remembers the latest received state of each alert."""

    def __init__(self) -> None:
        super().__init__()
        self.box = Outbox(SCHEDULE, lambda one: one.labels["alertname"][0])
        self.now = 100.0
        self.firing: dict[str, AlertNotice] = {}
        self.known: dict[str, AlertNotice] = {}
        self.tried: set[str] = set()
        self.attempts: list[float] = []

    def offer(self, ended: list[AlertNotice]) -> None:
        before = {one.key for one in self.firing.values()}
        self.box.offer({one.key: one for one in self.firing.values()}, ended, self.now)
        assert len(before) == len(self.firing)

    @rule(name=st.sampled_from(NAMES))
    def begins(self, name: str) -> None:
        self.firing.setdefault(name, notice(name, int(self.now * 1000)))
        self.offer([])

    @rule(name=st.sampled_from(NAMES))
    def ends(self, name: str) -> None:
        one = self.firing.pop(name, None)
        self.offer([] if one is None else [notice(name, one.starts_ms, int(self.now * 1000))])

    @rule(seconds=st.sampled_from([1.0, 5.0, 30.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.offer([])

    @rule(outcome=st.sampled_from(["delivered", "failed", "refused"]), is_last=st.booleans())
    def is_attempted(self, outcome: str, is_last: bool) -> None:
        expected = self.box.next_at()
        notices = self.box.take(self.now, is_last=is_last)
        if not is_last:
            assert bool(notices) == (expected <= self.now)
        if not notices:
            return
        self.attempts.append(self.now)
        assert len(notices) <= SCHEDULE.most_at_once
        assert len({one.labels["alertname"][0] for one in notices}) == 1
        for one in notices:
            if one.is_firing:
                self.tried.add(one.key)
            assert one.is_firing or one.key in self.tried, (
                "a resolved notice for an alert that was never sent"
            )
        if outcome == "delivered":
            self.known |= {one.key: one for one in notices}
            self.box.delivered(notices, self.now)
        elif outcome == "failed":
            self.box.failed(self.now)
            assert self.now < self.box.next_at()
            assert not self.box.waiting or self.box.next_at() <= self.now + SCHEDULE.most_retry_seconds
        else:
            self.box.refused(self.now)

    @precondition(lambda self: len(self.firing) <= CAPACITY)
    @rule()
    def a_receiver_that_answers_hears_what_is_true(self) -> None:
        for _ in range(40):
            self.now += 50.0
            self.offer([])
            while notices := self.box.take(self.now):
                self.tried |= {one.key for one in notices}
                self.known |= {one.key: one for one in notices}
                self.box.delivered(notices, self.now)
        fires = {key for key, one in self.known.items() if one.is_firing}
        assert fires >= {one.key for one in self.firing.values()}
        if len(self.tried) <= CAPACITY:  # nothing was evicted
            assert fires == {one.key for one in self.firing.values()}
        assert self.box.waiting == 0

    @invariant()
    def it_is_bounded(self) -> None:
        assert self.box.waiting <= 2 * CAPACITY
        assert self.box.next_at() == NEVER or self.box.next_at() >= 0


TestTold = ReceiverMachine.TestCase
TestTold.settings = settings(max_examples=examples(60), stateful_step_count=40)
