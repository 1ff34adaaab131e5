"""Evaluates the state of an instance's own lanes."""

from __future__ import annotations

from math import inf
from typing import Final, NamedTuple

from mirror.instance.backlog.partitions import UncopiedState
from mirror.instance.backlog.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.movement.loss import backlog_share, seconds_to_loss
from monitor.causes.evidence import LOSSES, BacklogOrigin
from monitor.movement.judge import DEFAULT_RULES, judge_lane
from monitor.movement.states import LaneActivity, LaneFacts, LaneJudgement, MovementState

_ACTIVITY: Final = {
    LanePhase.WAITING: LaneActivity.UNCOPIED,
    LanePhase.STARTING: LaneActivity.BEGINNING,
    LanePhase.COPYING: LaneActivity.COPYING,
    LanePhase.PAUSED: LaneActivity.PAUSED,
    LanePhase.STOPPING: LaneActivity.BEGINNING,
}
_SILENCE_SECONDS: Final = DEFAULT_RULES.silence_seconds
_IDLE_SECONDS: Final = 900.0
_AT_ONCE_SECONDS: Final = 30.0
"""Seconds after the start of a lane in which lateness means that the lane has been behind since its start."""
_EXPLAINS_SECONDS: Final = 600.0
"""Time for which the loss of a process can explain a current backlog."""
_RECENT_SECONDS: Final = 180.0
"""Seconds after the loss of a process for which the loss explains late records, even after the lane has
caught up."""
_STARTS_WITHIN_MS: Final = 120_000
"""Maximum ms from the creation or resumption of a lane until it starts copying."""
IN_TIME: Final = LaneJudgement(MovementState.OK)
"""State of a lane that is on time and for which no loss of records is predicted."""


def judged(lane: LaneStatus, now: float) -> LaneJudgement:
    """Return the state of a lane of this instance at `now` (monotonic seconds).

    The call is cheap for lanes without late records, which are the majority (see `LaneTrack`). The predicted
    loss of a lane is computed when the worker reports.
    """
    track = lane.track
    if lane.phase is LanePhase.COPYING and track.is_in_time(now, _SILENCE_SECONDS):
        at = track.loss_at()
        return IN_TIME if at == inf else LaneJudgement(MovementState.OK, seconds_to_loss=max(at - now, 0.0))
    activity = _ACTIVITY[lane.phase]
    facts = LaneFacts(activity, lane.cause, lane.reason, lane.held_back, lane.since, offset=lane.offset)
    return judge_lane(track.history, facts, now)


def is_idle(lane: LaneStatus, found: LaneJudgement, now: float) -> bool:
    """Return whether a lane has no waiting records and had no traffic for 15 minutes.

    The 15 minutes end at the start of its present state. A lane without a report is not idle, because its
    backlog is unknown.
    """
    newest = lane.history.newest
    if newest is None or newest.end > newest.checkpoint:
        return False
    return (now if found.since is None else found.since) - lane.track.moved_at > _IDLE_SECONDS


def judged_uncopied(lane: UncopiedLane, now: float) -> LaneJudgement:
    """Return the state of a partition that is not copied. The time to data loss is predicted from the
    movement of the log start offset. The state has no `since`."""
    is_paused = lane.what.state is UncopiedState.PAUSED
    # Without a current position, as while the leader cannot query the source, the time to loss is unknown.
    left = seconds_to_loss(lane.history, now) if lane.position is not None else None
    loss = 0.0 if lane.lost_records else left
    state = MovementState.PAUSED_BY_USER if is_paused else MovementState.STOP
    share = None if lane.lost_records or loss is None else backlog_share(lane.history)
    return LaneJudgement(state, lane.what.reason, seconds_to_loss=loss, backlog_share=share)


class Backlog(NamedTuple):
    """Event that caused a lane's backlog, and its time. All fields are None without a backlog.

    `since_ms`: start of the backlog (epoch ms). `lost_instance`: instance whose loss caused the backlog, None
    for other origins.
    """

    origin: BacklogOrigin | None = None
    since_ms: int | None = None
    lost_instance: str | None = None


def backlog_of(lane: LaneStatus, now: float, now_ms: int) -> Backlog:
    """Return the event that caused a lane's backlog. `now`: monotonic seconds. `now_ms`: epoch ms."""
    origin = _backlog_origin(lane, now, now_ms)
    if origin is None:
        return Backlog()
    loss = lane.loss if origin in LOSSES else None
    at = lane.since if loss is None else loss.at
    since_ms = None if at is None else int(now_ms - (now - at) * 1000)
    return Backlog(origin, since_ms, None if loss is None else loss.instance)


def _backlog_origin(lane: LaneStatus, now: float, now_ms: int) -> BacklogOrigin | None:
    """Return the kind of event that caused a lane's backlog; None if unknown.

    Also returns the origin of a backlog that was copied after the loss of a process in the last three
    minutes. Returns None if the lane has been on time at some point since it started.
    """
    waiting, age_ms = lane.lag
    exemption, since = lane.spec.exemption, lane.since
    if lane.phase is not LanePhase.COPYING or since is None:
        return None
    if not waiting:
        return _loss_origin(lane, now, _RECENT_SECONDS)
    if age_ms is not None and exemption.covers(now_ms - age_ms):
        return BacklogOrigin.CREATION if now_ms - age_ms < exemption.before_ms else BacklogOrigin.PAUSE
    is_recent = lane.loss is not None and now - lane.loss.at < _RECENT_SECONDS
    if not is_recent and not _is_behind_since(lane, since, now):
        return None
    if (loss := _loss_origin(lane, now, _EXPLAINS_SECONDS)) is not None:
        return loss
    if lane.recovered:
        return BacklogOrigin.OUTAGE
    after_ms = now_ms - (now - since) * 1000 - exemption.end_ms
    if not exemption.end_ms or not 0 <= after_ms <= _STARTS_WITHIN_MS:
        return BacklogOrigin.RESTART
    return BacklogOrigin.CREATION if exemption.end_ms == exemption.before_ms else BacklogOrigin.PAUSE


def _loss_origin(lane: LaneStatus, now: float, seconds: float) -> BacklogOrigin | None:
    if lane.loss is None or now - lane.loss.at >= seconds:
        return None
    return BacklogOrigin.WORKER if lane.loss.instance is None else BacklogOrigin.INSTANCE


def _is_behind_since(lane: LaneStatus, since: float, now: float) -> bool:
    """Return whether a lane has been behind since `since`, because it was late at once or its oldest waiting
    record is older."""
    late_since = lane.history.late_since
    if late_since is not None:
        return late_since - since <= _AT_ONCE_SECONDS
    _, age_ms = lane.lag
    return age_ms is not None and age_ms >= (now - since) * 1000
