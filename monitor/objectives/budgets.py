"""Computes the current error budgets of all datastreams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.burn.rates import DAY_SECONDS, Budget, BurnRule, judge_budget
from monitor.latency import ObjectiveSubject
from monitor.objectives.alone import SourcesAlone
from monitor.objectives.history import History, key_of, wanted_of
from monitor.objectives.past import PastMeasurements

_log = get_logger(__name__)
ALL: Final = 100_000
"""Value of `most_questions` for an unlimited number of queries."""
QUERIES_PER_EVALUATION: Final = 20
"""Maximum number of queries for past measurements per evaluation.

A new monitor needs several evaluations to read all measurements.
"""


_EVERY_SECONDS: Final = 30.0
"""Interval in seconds between two refreshes of the budgets when all past measurements are known. The shortest
windows are several minutes long."""

_BURNING_SECONDS: Final = 10.0
"""Seconds between refreshes while a budget burns fast enough to keep an alert firing, to detect the end
soon."""

_AWAY_SECONDS: Final = 60.0
"""Seconds until the next refresh after a failed one, which may have waited long for a response."""


class Budgets:
    """Computes the error budgets of datastreams.

    Past measurements are read in small parts, so that no evaluation takes long. `most_days`: retention of the
    measurements in days; 0 if only short windows can be read.
    """

    def __init__(
        self,
        past: PastMeasurements,
        clock: Clock,
        rules: Sequence[BurnRule],
        minimum_records: int,
        most_days: int,
    ) -> None:
        self._history = History(past)
        self._clock = clock
        self._rules = tuple(rules)
        self._minimum = minimum_records
        self._days = most_days
        self._looked: float | None = None
        self._objectives: Mapping[DatastreamName, object] = {}
        self._found: Mapping[DatastreamName, tuple[Budget, ...]] = {}
        self._is_burning = False
        self._logged_problem = ""

    def judge(
        self,
        subjects: Mapping[DatastreamName, ObjectiveSubject],
        most_questions: int = ALL,
        alone: SourcesAlone | None = None,
    ) -> Mapping[DatastreamName, tuple[Budget, ...]]:
        """Return the error budgets of each datastream, one for each of its objectives. `most_questions`,
        `alone`: see `History.refresh`.

        Raises no error: if measurements cannot be read, the budgets are unknown.
        """
        now, objectives = self._clock.monotonic(), _objectives_of(subjects)
        is_same = objectives == self._objectives
        usual = _BURNING_SECONDS if self._is_burning else _EVERY_SECONDS
        rest = _AWAY_SECONDS if self._history.is_away else usual
        is_due = self._looked is None or now - self._looked >= rest
        may_ask = is_due or not (self._history.problem or (is_same and self._history.is_whole))
        if may_ask or not is_same:
            self._found = self._judge(subjects, most_questions if may_ask else None, alone)
            self._is_burning = any(budget.lasting for budgets in self._found.values() for budget in budgets)
            self._objectives, self._looked = objectives, now if may_ask else self._looked
        return self._found

    def _judge(
        self,
        subjects: Mapping[DatastreamName, ObjectiveSubject],
        most_questions: int | None,
        alone: SourcesAlone | None,
    ) -> Mapping[DatastreamName, tuple[Budget, ...]]:
        """Return the error budgets of each datastream.

        `most_questions`: maximum number of queries; None to use the results of the last refresh.
        """
        objectives = {objective for subject in subjects.values() for objective in subject.objectives}
        periods = {min(objective.period_days, self._days) * DAY_SECONDS for objective in objectives}
        windows = periods if self._days else set()
        windows |= {seconds for rule in self._rules for seconds in (rule.long_seconds, rule.short_seconds)}
        if objectives and most_questions is not None:
            wanted = wanted_of(subjects.values())
            self._history.refresh(self._clock.now_ms(), wanted, windows, most_questions, alone)
            if self._history.problem not in {"", self._logged_problem}:
                _log.warning("some burn rates are unknown", reason=self._history.problem)
            self._logged_problem = self._history.problem
        return {name: self._budgets_of(subject) for name, subject in subjects.items()}

    def _budgets_of(self, subject: ObjectiveSubject) -> tuple[Budget, ...]:
        return tuple(
            judge_budget(
                objective,
                self._history.totals(key_of(subject, objective)),
                self._rules,
                self._minimum,
                self._days,
            )
            for objective in subject.objectives
        )


def _objectives_of(subjects: Mapping[DatastreamName, ObjectiveSubject]) -> Mapping[DatastreamName, object]:
    """Return the values on which the error budgets of each datastream depend."""
    return {
        name: (subject.source, subject.selection, subject.objectives) for name, subject in subjects.items()
    }
