"""Diagnoses late datastreams, with a limited number of checks.

After a slow phase, the backlog is copied at full speed. A lane that catches up looks like an overload or a
slow source, until enough reports show that the backlog shrinks. After another cause, an overload is therefore
diagnosed only for partitions whose backlog has not shrunk since the previous check. Time spent waiting at the
source counts only from the second check on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_of
from monitor.causes.diagnosis import OF_PLACEMENT, Cause, Diagnosis
from monitor.causes.evidence import Evidence, LaneEvidence
from monitor.causes.judge import diagnose
from monitor.movement.states import MovementState

_log = get_logger(__name__)

LEAST_SECONDS: Final = 5.0
"""Minimum seconds between two checks of a datastream, about the default report interval of lanes."""
MOST_QUESTIONS: Final = 10
"""Maximum number of checks per evaluation. The other datastreams are checked in later evaluations.

Each check queries the lanes of one group from every instance, and waits for a timeout if an instance does not
respond.
"""
_TOO_EARLY: Final = (
    f"{Cause.UNKNOWN}: records have waited at the source; the next check shows whether the backlog shrinks"
)
_COPYING: Final = frozenset(
    {None, MovementState.OK, MovementState.WARN, MovementState.THROTTLED, MovementState.CATCHING_UP}
)


@dataclass(frozen=True, slots=True)
class InquiryResult:
    """Result of checking why a datastream's records are late.

    `diagnosis`: None until the first diagnosis. `failure`: reason why the evidence could not be read, or an
    empty string. `is_news`: the cause differs from the previous one. `is_pending`: the first check follows in
    a later evaluation.
    """

    diagnosis: Diagnosis | None = None
    failure: str = ""
    is_news: bool = False
    is_pending: bool = False

    @property
    def sentence(self) -> str:
        """Sentence about the cause, or about why it is unknown."""
        if self.diagnosis is not None:
            return self.diagnosis.sentence
        return f"cause unknown: {self.failure}" if self.failure else ""


NO_ANSWER: Final = InquiryResult()


@dataclass(frozen=True, slots=True)
class _PreviousCheck:
    """Result of the previous check of a datastream. `waiting`: number of waiting records in each
    partition."""

    requested_at: float
    answer: InquiryResult
    waiting: Mapping[str, int] = field(default_factory=dict)


class Inquiry:
    """Latest diagnosis of each late datastream, valid until its next check or its recovery. Not
    thread-safe."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _PreviousCheck] = {}
        self._causes: dict[DatastreamName, Cause] = {}
        self._left = MOST_QUESTIONS

    def begin(self, late: Collection[DatastreamName], most: int = MOST_QUESTIONS) -> list[DatastreamName]:
        """Prepare for an evaluation with at most `most` checks. Drop the diagnoses of datastreams that are no
        longer late.

        Returns the late datastreams in the order in which to check them: those without a check first, then
        those whose last check is longest ago.
        """
        self._left = most
        self._known = {name: known for name, known in self._known.items() if name in late}
        self._causes = {name: cause for name, cause in self._causes.items() if name in late}
        checked = sorted(self._known, key=lambda name: self._known[name].requested_at)
        return [*(name for name in late if name not in self._known), *checked]

    def check(
        self, name: DatastreamName, ask: Callable[[], Evidence], limit_ms: float, now: float
    ) -> InquiryResult:
        """Return the diagnosis of a late datastream. If a check is due, call `ask` to read the evidence.
        `now`: monotonic seconds."""
        known = self._known.get(name)
        if known is not None and (now - known.requested_at < LEAST_SECONDS or not self._left):
            return InquiryResult(known.answer.diagnosis, known.answer.failure)
        if not self._left:
            return InquiryResult(failure="not checked yet: other datastreams come first", is_pending=True)
        self._left -= 1
        with Bulkhead() as check:
            self._known[name] = self._checked(name, ask, limit_ms, now)
        if (error := check.failure) is not None:
            reason, trace = reason_of(error), None if isinstance(error, HeadraceError) else error
            _log.warning("cause unknown", datastream=name, reason=reason, exc_info=trace)
            self._known[name] = _PreviousCheck(now, InquiryResult(failure=reason))
        return self._known[name].answer

    def _checked(
        self, name: DatastreamName, ask: Callable[[], Evidence], limit_ms: float, now: float
    ) -> _PreviousCheck:
        evidence, known, before = ask(), self._known.get(name), self._causes.get(name)
        found, is_new = diagnose(evidence, limit_ms), before not in OF_PLACEMENT
        is_doubtful = found.rests_on_wait or (
            is_new and (found.cause in OF_PLACEMENT or found.placement_can_help)
        )
        if known is not None and is_doubtful:
            found = diagnose(_since(evidence, known, now), limit_ms)
        elif found.rests_on_wait:
            found = Diagnosis(Cause.UNKNOWN, _TOO_EARLY, found.evidence)
        self._causes[name] = found.cause
        return _PreviousCheck(
            now, InquiryResult(found, is_news=before is not found.cause), _waiting(evidence)
        )


def _waiting(evidence: Evidence) -> dict[str, int]:
    return {lane.partition: lane.lag_records for lane in evidence.lanes if lane.lag_records is not None}


def _since(evidence: Evidence, former: _PreviousCheck, now: float) -> Evidence:
    """Mark the lanes whose backlog has shrunk since the previous check."""
    seconds = now - former.requested_at
    lanes = (_caught_up(lane, former.waiting.get(lane.partition), seconds) for lane in evidence.lanes)
    return replace(evidence, lanes=tuple(lanes))


def _caught_up(lane: LaneEvidence, before: int | None, seconds: float) -> LaneEvidence:
    waiting = lane.lag_records
    if before is None or waiting is None or waiting >= before or lane.state not in _COPYING:
        return lane
    eta = waiting * seconds / (before - waiting)
    return replace(lane, state=MovementState.CATCHING_UP, eta_seconds=eta)
