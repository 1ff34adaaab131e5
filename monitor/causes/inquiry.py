"""Asks why datastreams are late, and not more often than is needed.

What was slow and is not any more is copied as fast as that can be done, which looks like an overload, or like
a slow source, until enough reports show that less and less waits. So where another cause was found before,
one of placement counts only for partitions of which not less waits than when they were looked at last; and
that records have waited at the source counts only from the second look on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import structlog

from mirror.errors import HeadraceError
from mirror.model.identifiers import DatastreamName
from monitor.causes.diagnosis import OF_PLACEMENT, Cause, Diagnosis
from monitor.causes.evidence import Evidence, LaneEvidence
from monitor.causes.judge import diagnose
from monitor.movement.states import MovementState

_log = structlog.get_logger(__name__)

LEAST_SECONDS: Final = 5.0
"""Between two questions about a datastream: lanes report about so often, by default."""
MOST_QUESTIONS: Final = 10
"""Of a turn. Each makes every instance say what lanes of one group do, and a dead one is waited for: the
others' turn comes, as who was asked lately is not asked again."""
_TOO_EARLY: Final = (
    f"{Cause.UNKNOWN}: records have waited at the source; the next look shows whether they become fewer"
)
_COPYING: Final = frozenset(
    {None, MovementState.OK, MovementState.WARN, MovementState.THROTTLED, MovementState.CATCHING_UP}
)


@dataclass(frozen=True, slots=True)
class Answer:
    """`diagnosis`: None while there is none; `failure`: why the evidence could not be read, or empty.
    `is_news`: another cause than was found before."""

    diagnosis: Diagnosis | None = None
    failure: str = ""
    is_news: bool = False

    @property
    def sentence(self) -> str:
        """The cause, or why it is not known."""
        if self.diagnosis is not None:
            return self.diagnosis.sentence
        return f"cause not known: {self.failure}" if self.failure else ""


NO_ANSWER: Final = Answer()


@dataclass(frozen=True, slots=True)
class _Asked:
    """`waiting`: records of each partition."""

    asked_at: float
    answer: Answer
    waiting: Mapping[str, int] = field(default_factory=dict)


class Inquiry:
    """Used by one thread. What was found of a datastream counts until it is looked at again, or is well."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _Asked] = {}
        self._causes: dict[DatastreamName, Cause] = {}
        self._left = MOST_QUESTIONS

    def begin(self, late: Collection[DatastreamName]) -> None:
        """A turn begins; the others are not late any more."""
        self._left = MOST_QUESTIONS
        self._known = {name: one for name, one in self._known.items() if name in late}
        self._causes = {name: one for name, one in self._causes.items() if name in late}

    def look(self, name: DatastreamName, ask: Callable[[], Evidence], limit_ms: float, now: float) -> Answer:
        """Why it is late. `now`: monotonic seconds."""
        known = self._known.get(name)
        if known is not None and (now - known.asked_at < LEAST_SECONDS or not self._left):
            return Answer(known.answer.diagnosis, known.answer.failure)
        if not self._left:
            return Answer(failure="others are looked at first")
        self._left -= 1
        try:
            evidence = ask()
        except HeadraceError as error:
            _log.warning("cause not known", datastream=name, reason=str(error))
            self._known[name] = _Asked(now, Answer(failure=str(error)))
        else:
            found, before = diagnose(evidence, limit_ms), self._causes.get(name)
            is_new = before not in OF_PLACEMENT
            is_doubtful = found.rests_on_wait or (
                is_new and (found.cause in OF_PLACEMENT or found.placement_can_help)
            )
            if known is not None and is_doubtful:
                found = diagnose(_since(evidence, known, now), limit_ms)
            elif found.rests_on_wait:
                found = Diagnosis(Cause.UNKNOWN, _TOO_EARLY, found.evidence)
            self._causes[name] = found.cause
            self._known[name] = _Asked(
                now, Answer(found, is_news=before is not found.cause), _waiting(evidence)
            )
        return self._known[name].answer


def _waiting(evidence: Evidence) -> dict[str, int]:
    return {one.partition: one.lag_records for one in evidence.lanes if one.lag_records is not None}


def _since(evidence: Evidence, former: _Asked, now: float) -> Evidence:
    """With lanes of which less waits than before as ones that catch up."""
    seconds = now - former.asked_at
    lanes = (_caught_up(one, former.waiting.get(one.partition), seconds) for one in evidence.lanes)
    return replace(evidence, lanes=tuple(lanes))


def _caught_up(lane: LaneEvidence, before: int | None, seconds: float) -> LaneEvidence:
    waiting = lane.lag_records
    if before is None or waiting is None or waiting >= before or lane.state not in _COPYING:
        return lane
    eta = waiting * seconds / (before - waiting)
    return replace(lane, state=MovementState.CATCHING_UP, eta_seconds=eta)
