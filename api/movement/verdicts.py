"""What an instance knows of a lane, as facts to judge its movement by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.movement.loss import seconds_to_loss
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
IN_TIME: Final = Judgement(MovementState.OK)
"""Of every lane that is in time and of which nothing will be lost, as far as that is known."""
_SOON_SECONDS: Final = 600.0
_MOST_SECONDS: Final = 300.0
"""Between two looks at when the source deletes what a lane in time has yet to copy, which is not soon."""


def judged(lane: LaneStatus, now: float) -> Judgement:
    """A lane of this instance, at `now` in monotonic seconds. For one that is in time, which most are, this
    costs little: see `LaneTrack`. Its time to loss, while that is long, is as of some minutes ago, less the
    time since then."""
    track = lane.track
    if lane.phase is LanePhase.COPYING and track.is_in_time(now, _SILENCE_SECONDS):
        left = _loss_of(track, now) if track.may_lose else None
        return IN_TIME if left is None else Judgement(MovementState.OK, seconds_to_loss=left)
    activity = _ACTIVITY[lane.phase]
    facts = LaneFacts(activity, lane.cause, lane.reason, lane.held_back, lane.since)
    return judge_lane(track.history, facts, now)


def not_calm(lanes: Iterable[LaneStatus], now: float) -> list[LaneStatus]:
    """All but those that `judged` finds in time at once; nearly all are, and each takes a part of a
    microsecond."""
    copying = LanePhase.COPYING
    return [
        lane for lane in lanes if lane.phase is not copying or now - lane.track.calm_at > _SILENCE_SECONDS
    ]


def parted(lanes: Iterable[LaneStatus], now: float) -> tuple[list[LaneStatus], list[LaneStatus]]:
    """Those that `judged` finds `IN_TIME` at once, and the others."""
    calm: list[LaneStatus] = []
    others: list[LaneStatus] = []
    copying, take, leave = LanePhase.COPYING, calm.append, others.append
    for lane in lanes:
        track = lane.track
        if lane.phase is copying and not track.may_lose and now - track.calm_at <= _SILENCE_SECONDS:
            take(lane)
        else:
            leave(lane)
    return calm, others


def _loss_of(track: LaneTrack, now: float) -> float | None:
    looked, left = track.loss_look
    passed = now - looked
    if passed > _MOST_SECONDS or (left is not None and left - passed < _SOON_SECONDS):
        left = seconds_to_loss(track.history, now)
        track.loss_look = now, left
        return left
    return None if left is None else left - passed


def judged_uncopied(lane: UncopiedLane, now: float) -> Judgement:
    """A partition that nobody copies; since when is in epoch ms, and not said here. When records will be lost
    is told by how the start of the source's log moves."""
    is_paused = lane.what.state is UncopiedState.PAUSED
    # What is not known any more, as while no look can be finished, says nothing of what is left.
    left = seconds_to_loss(lane.history, now) if lane.position is not None else None
    loss = 0.0 if lane.lost_records else left
    state = MovementState.PAUSED_BY_USER if is_paused else MovementState.STOP
    return Judgement(state, lane.what.reason, seconds_to_loss=loss)
