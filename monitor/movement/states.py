"""States of partitions, and facts about lanes other than the movement of their position."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from mirror.model.datastreams.lanes import PauseCause
from mirror.model.reasons import reason_at


class MovementState(StrEnum):
    """State of copying a partition. The states from OK to REWIND, and WAITING_FOR_TRANSACTION, can be derived
    from the movement of the position alone."""

    __hash__ = str.__hash__  # in C, and equal to the hash of the same text

    OK = "OK"
    """No waiting record is late."""
    CATCHING_UP = "CATCHING_UP"
    """Records are late, and the backlog shrinks."""
    WARN = "WARN"
    """Records are late; they are copied, but the backlog does not shrink."""
    STALL = "STALL"
    """Records can be read, but the position does not advance."""
    STOP = "STOP"
    """The partition has no owner, or its owner does not report."""
    REWIND = "REWIND"
    """The position went back: records are copied a second time."""
    PAUSED_BY_USER = "PAUSED_BY_USER"
    PAUSED_BY_ITSELF = "PAUSED_BY_ITSELF"
    THROTTLED = "THROTTLED"
    """Records are late, and a quota prevents the lane from catching up."""
    SOURCE_AWAY = "SOURCE_AWAY"
    DESTINATION_AWAY = "DESTINATION_AWAY"
    TRUNCATED = "TRUNCATED"
    """The source has lost records, which may or may not have been copied."""
    RECREATED = "RECREATED"
    """The source topic was deleted and created again."""
    WAITING_FOR_TRANSACTION = "WAITING_FOR_TRANSACTION"
    """An open transaction at the source hides the whole backlog."""


class LaneActivity(StrEnum):
    """Activity of a lane according to its instance or the leader."""

    COPYING = "copying"
    BEGINNING = "beginning"
    """The lane is determining its position, or draining its batches before it stops."""
    PAUSED = "paused"
    UNCOPIED = "uncopied"
    """The partition has no owner."""


class LaneFacts(NamedTuple):
    """Facts about a lane other than the movement of its position.

    `cause`: cause of a pause. `reason`: description of the cause. `throttled`: quota that throttles the lane,
    or an empty string. `since`: start of the activity in monotonic seconds, None if unknown. `by_user`: an
    operator requested the pause. `offset`: source offset at which a paused lane resumes, None if unknown.
    """

    activity: LaneActivity = LaneActivity.COPYING
    cause: PauseCause = PauseCause.OTHER
    reason: str = ""
    throttled: str = ""
    since: float | None = None
    by_user: bool = False
    offset: int | None = None


class LaneJudgement(NamedTuple):
    """State of a lane's copying, and predictions. None means unknown.

    `since`: start of the state in monotonic seconds. `eta_seconds`: time until the backlog is empty.
    `seconds_to_loss`: time until the source deletes the first record that is not at the destination.
    `hidden_ms`: age of the first record hidden by an open transaction if no other records wait.
    `keeps_ahead`: whether the lane copies records before the source deletes them at its current rate; also
    True if it has not been observed for long enough. `backlog_share`: for a lane that loses data, backlog as
    a share of the source's log. `lacks_process`: whether the worker process is missing or does not respond.
    `offset`: source offset at which a paused lane resumes.
    """

    state: MovementState | None
    reason: str = ""
    since: float | None = None
    eta_seconds: float | None = None
    seconds_to_loss: float | None = None
    hidden_ms: int | None = None
    keeps_ahead: bool = False
    backlog_share: float | None = None
    lacks_process: bool = False
    offset: int | None = None

    @property
    def text(self) -> str:
        """Reason with the offset."""
        return reason_at(self.reason, self.offset)

    @property
    def loses_data(self) -> bool:
        """True if, at the current rate, the source will delete records before the lane copies them.

        Records are lost if the retention of the records ends before the lane has caught up, and the log start
        advances faster than the lane. If the time until the lane has caught up is unknown, the lane counts as
        too slow. The value is False for a lane in the state OK.
        """
        if self.seconds_to_loss is None or self.state is MovementState.OK or self.keeps_ahead:
            return False
        return self.eta_seconds is None or self.eta_seconds > self.seconds_to_loss
