"""The error budgets of all datastreams, as of now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.burn.rates import DAY_SECONDS, Budget, BurnRule, judge_budget
from monitor.latency import Subject
from monitor.objectives.history import History, Past, key_of, wanted_of

_log = structlog.get_logger(__name__)
ALL: Final = 100_000
"""Questions about the past: as many as there are."""
QUESTIONS_OF_A_TURN: Final = 20
"""About the past, so that no turn of the monitor waits for long: after some turns all of it is known."""


class Budgets:
    """Reads the past in small parts, so that no turn waits long. `most_days`: how long measurements are
    kept."""

    def __init__(
        self, past: Past, clock: Clock, rules: Sequence[BurnRule], minimum_records: int, most_days: int
    ) -> None:
        self._history = History(past)
        self._clock = clock
        self._rules = tuple(rules)
        self._minimum = minimum_records
        self._days = most_days

    def judge(
        self, subjects: Mapping[DatastreamName, Subject], most_questions: int = ALL
    ) -> Mapping[DatastreamName, tuple[Budget, ...]]:
        """The budget of each objective, in their order. `most_questions` as of `History.refresh`. What cannot
        be read is not known, and raises nothing."""
        objectives = {one for subject in subjects.values() for one in subject.objectives}
        if not objectives:
            return dict.fromkeys(subjects, ())
        windows = {min(one.period_days, self._days) * DAY_SECONDS for one in objectives}
        windows |= {seconds for rule in self._rules for seconds in (rule.long_seconds, rule.short_seconds)}
        wanted = wanted_of(subjects.values())
        self._history.refresh(self._clock.now_ms(), wanted, windows, most_questions)
        if self._history.problem:
            _log.warning("burn rates are not known", reason=self._history.problem)
        return {name: self._of(subject, windows) for name, subject in subjects.items()}

    def _of(self, subject: Subject, windows: set[int]) -> tuple[Budget, ...]:
        return tuple(
            judge_budget(
                one,
                {seconds: self._history.total(key_of(subject, one), seconds) for seconds in windows},
                self._rules,
                self._minimum,
                self._days,
            )
            for one in subject.objectives
        )
