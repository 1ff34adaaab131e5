"""Run of the monitor over a month: the real cycle, its alerts, its records of incidents, and a receiver.

The receiver is unreachable for a day. An evaluation runs every 30 seconds where something starts, ends or is
near its limit, and every twenty minutes while nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from mirror.errors import HeadraceError
from monitor.alerts.alert import Alert, AlertKey, Style
from monitor.alerts.catalogue import ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.deliveries.outbox import Outbox, Schedule
from monitor.burn.rates import read_rule
from monitor.cycle import MonitorCycle
from monitor.incidents import IncidentPolicy
from monitor.objectives.budgets import Budgets
from monitor.records.record import IncidentRecord
from monitor.records.tracker import IncidentTracker
from monitor.settings import MonitorSettings
from tests.unit.monitor.month import truth
from tests.unit.monitor.month.flow import DAYS, PER_MINUTE, STEP_SECONDS, STEPS, Flags
from tests.unit.monitor.month.world import OBJECTIVE, World

NEAR_STEPS: Final = 16 * PER_MINUTE
_CALM_STEPS: Final = 20 * PER_MINUTE


@dataclass
class Span:
    """Period in steps in which an alert fires; `end` is None while it lasts."""

    key: AlertKey
    first: int
    end: int | None = None


@dataclass
class Pager:
    """Messages sent to a webhook or mail address."""

    spans: list[Span] = field(default_factory=list)

    def note(self, step: int, firing: Iterable[AlertKey], over: Iterable[AlertKey]) -> None:
        """Record the alerts that started or ended; repeated messages change nothing."""
        open_ones = {one.key: one for one in self.spans if one.end is None}
        for key in over:
            if key in open_ones:
                open_ones[key].end = step
        self.spans += [Span(key, step) for key in firing if key not in open_ones]


class Month:
    """A simulated month. Call `run` once."""

    def __init__(self, seed: int, world: type[World] = World) -> None:
        self.settings = MonitorSettings()
        self.world = world(seed)
        self.rules = [read_rule(text) for text in self.settings.burn_rates]
        patience = self.settings.alerts.patience()
        self.catch_up_steps = round(patience.catching_up_after_seconds / STEP_SECONDS)
        """Time after an outage that has paged in which late records do not page."""
        self.records: dict[str, IncidentRecord] = {}
        self.alerts, self.told = Pager(), Pager()
        self.evaluations = 0
        chosen = self.settings.alerts
        self._budgets = Budgets(self.world, self.world, self.rules, self.settings.minimum_records, DAYS)
        policy = _policy_of(self.settings)
        window = self.settings.window_seconds
        self._cycle = MonitorCycle(self.world, self.world, policy, self.world, window, self._budgets)
        self._conditions = Conditions(patience)
        self._style = Style({}, "", "http://here")
        self._tracker = IncidentTracker()
        self._outbox = Outbox(Schedule(chosen.gather_seconds, 4 * 3_600.0))
        self._known: dict[str, AlertKey] = {}
        self._firing: list[Alert] = []

    def run(self, until: int = STEPS) -> None:
        """Run the month up to a step."""
        changes, near = -1, np.zeros(STEPS, bool)
        step = PER_MINUTE
        while step < until:
            if step - self.world.step > 1:
                self.world.step = step
                self._budgets.judge(self.world.subjects())  # as a skipped evaluation would have done
            self.world.step = step
            self._evaluate(step)
            if self.world.changes != changes:
                changes, near = self.world.changes, self._near()
            following = near[step + 1 : step + 1 + _CALM_STEPS]
            step += 1 + (int(np.argmax(following)) if following.any() else _CALM_STEPS - 1)

    def _evaluate(self, step: int) -> None:
        self.evaluations += 1
        now = ClockReading(self.world.now_ms(), self.world.monotonic())
        before = {one.key: one for one in self._firing}
        try:
            assert not self._cycle.held_by()
            findings = self._cycle.evaluate()
        except HeadraceError as error:
            alerts = self._conditions.judging_failed(str(error), now)
        else:
            alerts = self._conditions.judged(findings, now)
            self.records |= {one.id: one for one in self._tracker.judged(findings, now.ms)}
        self._firing = alerts
        firing = {one.key for one in alerts}
        over = [one for key, one in before.items() if key not in firing]
        self.alerts.note(step, firing, [one.key for one in over])
        notices = {(notice := self._style.notice(one)).key: notice for one in alerts}
        self._known |= {self._style.notice(one).key: one.key for one in alerts}
        self._outbox.offer(notices, [self._style.notice(one, now.ms) for one in over], now.seconds)
        self._deliver(step, now.seconds)

    def _deliver(self, step: int, now: float) -> None:
        while notices := self._outbox.take(now):
            if self.is_away(step):
                self._outbox.failed(now)
                return
            keys = {self._known[one.key]: one.is_firing for one in notices}
            over = [key for key, fires in keys.items() if not fires]
            self.told.note(step, [key for key, fires in keys.items() if fires], over)
            self._outbox.delivered(notices, now)

    def is_away(self, step: int) -> bool:
        """Return whether the receiver is unreachable, as on the fifth day."""
        return step * STEP_SECONDS // 86_400 == 4

    def _near(self) -> Flags:
        """Return the steps near which something starts or ends, or may do so."""
        edges = np.zeros(STEPS, bool)
        flags = [self.world.blind]
        minimum = self.settings.minimum_records
        for name, flow in self.world.flows.items():
            found = [truth.breaches(flow)]
            rules = self.rules if name in self.world.budgeted else []
            found += [truth.burns(flow, [one], OBJECTIVE.budget, minimum) for one in rules]
            is_silent = flow.silent > 0
            flags += [flow.halted, flow.unknown, flow.late_ones, is_silent, *(one.near for one in found)]
            for matter in (matter for one in found for matter in one.matters):
                edges[[matter.first, min(matter.end, STEPS - 1)]] = True
            for halt in truth.halts(flow):  # from then on, late records page again
                edges[min(halt.end + self.catch_up_steps, STEPS - 1)] = True
        for one in flags:
            edges[1:] |= one[1:] != one[:-1]
        total = np.concatenate([[0], np.cumsum(edges)])
        steps = np.arange(STEPS)
        until, since = np.minimum(steps + NEAR_STEPS, STEPS), np.maximum(steps - NEAR_STEPS, 0)
        return np.asarray(total[until] > total[since])


def _policy_of(settings: MonitorSettings) -> IncidentPolicy:
    return IncidentPolicy(
        settings.open_after,
        settings.close_after,
        settings.cooldown_seconds,
        close_seconds=settings.close_seconds,
    )
