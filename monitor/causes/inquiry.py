"""Rate-limited diagnosis of late datastreams.

After a slow phase, the backlog is copied at full speed, which looks like an overload or a slow source until
enough reports show that it shrinks. So after another cause, one of placement counts only for partitions whose
backlog has not shrunk since the previous look, and time spent waiting at the source counts only from the
second look on.
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
"""Minimum interval between two looks at a datastream, about the default report interval of lanes."""
MOST_QUESTIONS: Final = 10
"""Maximum number of looks per turn. Each queries every instance for the lanes of one group and waits for dead
instances. The other datastreams follow, because recently examined ones are skipped."""
_TOO_EARLY: Final = (
    f"{Cause.UNKNOWN}: records have waited at the source; the next look shows whether the backlog shrinks"
)
_COPYING: Final = frozenset(
    {None, MovementState.OK, MovementState.WARN, MovementState.THROTTLED, MovementState.CATCHING_UP}
)


@dataclass(frozen=True, slots=True)
class InquiryResult:
    """Result of a look. `diagnosis`: None while there is none; `failure`: reason for which the evidence could
    not be read, or empty. `is_news`: the cause differs from the previous one."""

    diagnosis: Diagnosis | None = None
    failure: str = ""
    is_news: bool = False

    @property
    def sentence(self) -> str:
        """The cause, or the reason for which it is unknown."""
        if self.diagnosis is not None:
            return self.diagnosis.sentence
        return f"cause unknown: {self.failure}" if self.failure else ""


NO_ANSWER: Final = InquiryResult()


@dataclass(frozen=True, slots=True)
class _PreviousLook:
    """A previous look. `waiting`: backlog of each partition in records."""

    requested_at: float
    answer: InquiryResult
    waiting: Mapping[str, int] = field(default_factory=dict)


class Inquiry:
    """Latest diagnosis of each late datastream, valid until its next look or its recovery. Not
    thread-safe."""

    def __init__(self) -> None:
        self._known: dict[DatastreamName, _PreviousLook] = {}
        self._causes: dict[DatastreamName, Cause] = {}
        self._left = MOST_QUESTIONS

    def begin(self, late: Collection[DatastreamName]) -> None:
        """Begin a turn and drop the diagnoses of datastreams that are no longer late."""
        self._left = MOST_QUESTIONS
        self._known = {name: one for name, one in self._known.items() if name in late}
        self._causes = {name: one for name, one in self._causes.items() if name in late}

    def look(
        self, name: DatastreamName, ask: Callable[[], Evidence], limit_ms: float, now: float
    ) -> InquiryResult:
        """Return the cause of its lateness, calling `ask` for evidence if a look is due. `now`: monotonic
        seconds."""
        known = self._known.get(name)
        if known is not None and (now - known.requested_at < LEAST_SECONDS or not self._left):
            return InquiryResult(known.answer.diagnosis, known.answer.failure)
        if not self._left:
            return InquiryResult(failure="not examined yet, other datastreams come first")
        self._left -= 1
        try:
            evidence = ask()
        except HeadraceError as error:
            _log.warning("cause unknown", datastream=name, reason=str(error))
            self._known[name] = _PreviousLook(now, InquiryResult(failure=str(error)))
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
            self._known[name] = _PreviousLook(
                now, InquiryResult(found, is_news=before is not found.cause), _waiting(evidence)
            )
        return self._known[name].answer


def _waiting(evidence: Evidence) -> dict[str, int]:
    return {one.partition: one.lag_records for one in evidence.lanes if one.lag_records is not None}


def _since(evidence: Evidence, former: _PreviousLook, now: float) -> Evidence:
    """Return the evidence with lanes whose backlog has shrunk since the previous look marked as catching
    up."""
    seconds = now - former.requested_at
    lanes = (_caught_up(one, former.waiting.get(one.partition), seconds) for one in evidence.lanes)
    return replace(evidence, lanes=tuple(lanes))


def _caught_up(lane: LaneEvidence, before: int | None, seconds: float) -> LaneEvidence:
    waiting = lane.lag_records
    if before is None or waiting is None or waiting >= before or lane.state not in _COPYING:
        return lane
    eta = waiting * seconds / (before - waiting)
    return replace(lane, state=MovementState.CATCHING_UP, eta_seconds=eta)
