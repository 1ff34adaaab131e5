"""What an instance knows of a lane, as facts to judge its movement by."""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.model.movement.loss import backlog_share, seconds_to_loss
from monitor.causes.evidence import Origin
from monitor.movement.judge import DEFAULT_RULES, judge_lane
from monitor.movement.states import Judgement, LaneActivity, LaneFacts, MovementState

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
"""A lane that is late so soon after it began has been behind since then."""
_EXPLAINS_SECONDS: Final = 600.0
"""A worker process that was lost longer ago explains no backlog of now."""
_STARTS_WITHIN_MS: Final = 120_000
"""By then a lane copies that was to copy."""
IN_TIME: Final = Judgement(MovementState.OK)
"""Of every lane that is in time and of which nothing will be lost, as far as that is known."""


def judged(lane: LaneStatus, now: float) -> Judgement:
    """A lane of this instance, at `now` in monotonic seconds. For one that is in time, which most are, this
    costs little: see `LaneTrack`. Its time to loss is as of what its worker has said last."""
    track = lane.track
    if lane.phase is LanePhase.COPYING and track.is_in_time(now, _SILENCE_SECONDS):
        at = track.loss_at()
        return IN_TIME if at == inf else Judgement(MovementState.OK, seconds_to_loss=max(at - now, 0.0))
    activity = _ACTIVITY[lane.phase]
    facts = LaneFacts(activity, lane.cause, lane.reason, lane.held_back, lane.since)
    return judge_lane(track.history, facts, now)


def is_idle(lane: LaneStatus, found: Judgement, now: float) -> bool:
    """Return whether nothing waits for a lane and nothing was copied in the quarter of an hour before it came
    into that state. A lane that has reported nothing yet is not idle: nobody knows."""
    newest = lane.history.newest
    if newest is None or newest.end > newest.checkpoint:
        return False
    return (now if found.since is None else found.since) - lane.track.moved_at > _IDLE_SECONDS


def judged_uncopied(lane: UncopiedLane, now: float) -> Judgement:
    """A partition that nobody copies; since when is in epoch ms, and not said here. When records will be lost
    is told by how the start of the source's log moves."""
    is_paused = lane.what.state is UncopiedState.PAUSED
    # What is not known any more, as while no look can be finished, says nothing of what is left.
    left = seconds_to_loss(lane.history, now) if lane.position is not None else None
    loss = 0.0 if lane.lost_records else left
    state = MovementState.PAUSED_BY_USER if is_paused else MovementState.STOP
    share = None if lane.lost_records or loss is None else backlog_share(lane.history)
    return Judgement(state, lane.what.reason, seconds_to_loss=loss, backlog_share=share)


def backlog_origin(lane: LaneStatus, now: float, now_ms: int) -> Origin | None:
    """Return what has left the backlog of a lane that copies; None where none is left, or it was in time
    since it began. `now`: monotonic seconds, `now_ms` the same in epoch ms."""
    waiting, age_ms = lane.lag
    excuse, since = lane.spec.excuse, lane.since
    if lane.phase is not LanePhase.COPYING or not waiting or since is None:
        return None
    if age_ms is not None and excuse.covers(now_ms - age_ms):
        return Origin.CREATION if now_ms - age_ms < excuse.before_ms else Origin.PAUSE
    if not _is_behind_since(lane, since, now):
        return None
    if lane.lost_at is not None and now - lane.lost_at < _EXPLAINS_SECONDS:
        return Origin.WORKER
    if lane.recovered:
        return Origin.OUTAGE
    after_ms = now_ms - (now - since) * 1000 - excuse.name
    if not excuse.name or not 0 <= after_ms <= _STARTS_WITHIN_MS:
        return Origin.RESTART
    return Origin.CREATION if excuse.name == excuse.before_ms else Origin.PAUSE


def _is_behind_since(lane: LaneStatus, since: float, now: float) -> bool:
    """Return whether a lane has been behind since it began: late at once, or its oldest waiting record is
    older than that."""
    late_since = lane.history.late_since
    if late_since is not None:
        return late_since - since <= _AT_ONCE_SECONDS
    _, age_ms = lane.lag
    return age_ms is not None and age_ms >= (now - since) * 1000


def backlog_since_ms(lane: LaneStatus, now: float, now_ms: int) -> int | None:
    """Return when that happened which has left the backlog, in epoch ms; None where there is none."""
    origin = backlog_origin(lane, now, now_ms)
    at = lane.lost_at if origin is Origin.WORKER else lane.since
    return None if origin is None or at is None else int(now_ms - (now - at) * 1000)
