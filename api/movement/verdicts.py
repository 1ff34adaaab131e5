"""What an instance knows of a lane, as facts to judge its movement by."""

from __future__ import annotations

from math import inf
from typing import Final

from mirror.instance.uncopied.partitions import UncopiedState
from mirror.instance.uncopied.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
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


def judged_uncopied(lane: UncopiedLane, now: float) -> Judgement:
    """A partition that nobody copies; since when is in epoch ms, and not said here. When records will be lost
    is told by how the start of the source's log moves."""
    is_paused = lane.what.state is UncopiedState.PAUSED
    # What is not known any more, as while no look can be finished, says nothing of what is left.
    left = seconds_to_loss(lane.history, now) if lane.position is not None else None
    loss = 0.0 if lane.lost_records else left
    state = MovementState.PAUSED_BY_USER if is_paused else MovementState.STOP
    return Judgement(state, lane.what.reason, seconds_to_loss=loss)
