"""The states of a partition, and what is known of a lane besides its movement."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mirror.model.datastreams.lanes import PauseCause


class MovementState(StrEnum):
    """What the copying of a partition does. The first six and the last follow from movement alone."""

    __hash__ = str.__hash__  # in C, and that of the equal text

    OK = "OK"
    """Whatever waits is younger than what counts as late."""
    CATCHING_UP = "CATCHING_UP"
    """It is late, and falls behind less and less."""
    WARN = "WARN"
    """It is late, copies, and does not come nearer to the end."""
    STALL = "STALL"
    """There is something to read, and the position stays."""
    STOP = "STOP"
    """Nobody copies it, or who should says nothing."""
    REWIND = "REWIND"
    """Its position went back: records are written once more."""
    PAUSED_BY_USER = "PAUSED_BY_USER"
    PAUSED_BY_ITSELF = "PAUSED_BY_ITSELF"
    THROTTLED = "THROTTLED"
    """A quota keeps it from catching up."""
    SOURCE_AWAY = "SOURCE_AWAY"
    DESTINATION_AWAY = "DESTINATION_AWAY"
    TRUNCATED = "TRUNCATED"
    """The source has lost what was not copied, or what was."""
    RECREATED = "RECREATED"
    """The source's topic is another one than was copied."""
    WAITING_FOR_TRANSACTION = "WAITING_FOR_TRANSACTION"
    """All that waits is hidden by an open transaction at the source."""


class LaneActivity(StrEnum):
    """What a lane does, as its instance or the leader knows it."""

    COPYING = "copying"
    BEGINNING = "beginning"
    """It looks for its position, or drains what it has before it stops."""
    PAUSED = "paused"
    UNCOPIED = "uncopied"
    """Nobody copies it."""


class LaneFacts(NamedTuple):
    """What decides beside movement. `cause`: of a pause. `reason`: what is said of it. `throttled`: which
    quota holds it back, empty where none does. `since`: when it began to do so, in monotonic seconds; None
    where that is not known. `by_user`: a person wants it so."""

    activity: LaneActivity = LaneActivity.COPYING
    cause: PauseCause = PauseCause.OTHER
    reason: str = ""
    throttled: str = ""
    since: float | None = None
    by_user: bool = False


class Judgement(NamedTuple):
    """What was found. `state`: None while nothing is known yet. `since`: in monotonic seconds, None where it
    is not known. `eta_seconds`: until nothing waits any more. `seconds_to_loss`: until the source deletes the
    first record that is not at the destination, if it is not copied before. None where it is not known.
    `hidden_ms`: the age of the first record that an open transaction hides, where nothing else waits.
    `keeps_ahead`: as it moves, it copies records before the source deletes them, as far as that was watched.
    `backlog_share`: of one that loses data, the share of what the source keeps that waits."""

    state: MovementState | None
    reason: str = ""
    since: float | None = None
    eta_seconds: float | None = None
    seconds_to_loss: float | None = None
    hidden_ms: int | None = None
    keeps_ahead: bool = False
    backlog_share: float | None = None

    @property
    def loses_data(self) -> bool:
        """Whether the source will delete records before they are copied, as things stand: retention is
        shorter than what catching up takes, and the lane does not keep ahead of it. Of what waits for
        something that has no end nobody knows when it is copied; what is OK is copied in a moment."""
        if self.seconds_to_loss is None or self.state is MovementState.OK or self.keeps_ahead:
            return False
        return self.eta_seconds is None or self.eta_seconds > self.seconds_to_loss
