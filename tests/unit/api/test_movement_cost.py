"""Test that judging lanes that are in time is cheap and gives the same result as the full rules."""

from __future__ import annotations

import pytest

from mirror.instance.workers.lane_table import LanePhase, LanesInTime, LaneStatus
from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.movement.history import UNKNOWN_RETENTION, LanePosition, Retention
from mirror.worker.protocol import LaneRate
from monitor.lane_verdicts import IN_TIME, judged
from monitor.movement.states import MovementState
from tests.builders import SOURCE, a_key, a_spec

SIZE = Retention(None, 1_000_000_000)


def a_lane(reports: int, retention: Retention = UNKNOWN_RETENTION) -> tuple[LaneStatus, float]:
    """Return a lane in time that reports every 5 s that 50 records wait, and the time of its last report."""
    track, now = LaneTrack(), 1_000.0
    for number in range(reports):
        now += 5.0
        at = 500 * number
        place = LanePosition(at, at + 50, at + 50, 0, retention)
        track.note(LaneRate(a_key("t-0"), SOURCE, 10_000.0, 100.0, 50, 400, (), place), now, now - 5)
    return LaneStatus(a_spec("t-0"), 0, LanePhase.COPYING, track=track), now


def test_a_lane_in_time_of_which_nothing_will_be_lost_makes_no_judgement_of_its_own() -> None:
    lane, now = a_lane(8)
    assert judged(lane, now) is IN_TIME
    assert judged(lane, now + 31).state is MovementState.STOP, "records wait, but reports have stopped"


def test_a_time_to_loss_is_looked_for_once_for_each_history_and_comes_nearer_meanwhile() -> None:
    lane, now = a_lane(8, SIZE)
    first = judged(lane, now).seconds_to_loss
    assert first is not None
    assert first == pytest.approx((1_000_000_000 - 5_000) / (100 * 100))
    look = lane.track.loss_at()
    lane.track.note(LaneRate(a_key("t-0"), SOURCE, 1e9, 1.0, 50, 400, (), None), now + 5, now)
    assert judged(lane, now + 5).seconds_to_loss == pytest.approx(first - 5)
    assert lane.track.loss_at() == look
    lane.track.note(LaneRate(a_key("t-0"), SOURCE, 1e9, 1.0, 50, 400, (), _place(4_000)), now + 10, now + 5)
    assert judged(lane, now + 10).seconds_to_loss == 0.0, "the backlog exceeds the retention"


def test_lanes_that_need_no_look_of_their_own_are_those_that_are_in_time() -> None:
    (calm, now), (losing, _), (paused, _) = a_lane(8), a_lane(8, SIZE), a_lane(8)
    for lane in (calm, losing, paused):
        _watch(lane, now)
    (unwatched, _), (back, _) = a_lane(8), a_lane(8)
    back.track.note(LaneRate(a_key("t-0"), SOURCE, 1.0, 1.0, 50, 400, (), _place(900)), now, now - 5)
    lanes = [calm, losing, unwatched, back, paused.entering(LanePhase.PAUSED, now)]
    found = LanesInTime.of({a_key(f"t-{number}"): one for number, one in enumerate(lanes)})
    assert found.counts == {"orders": 2}
    assert found.loss_at == {"orders": now + (judged(losing, now).seconds_to_loss or 0.0)}
    assert list(found.others.values()) == lanes[2:]
    assert judged(calm, now + 3_600) is IN_TIME


def _watch(lane: LaneStatus, now: float) -> None:
    """Mark the lane as watched: its worker sends no reports while it is in time."""
    history = lane.track.history
    newest = history.newest
    assert newest is not None
    place = LanePosition(newest.checkpoint, newest.end, newest.end, 0, history.retention, is_watched=True)
    lane.track.note(LaneRate(a_key("t-0"), SOURCE, 10_000.0, 100.0, 50, 400, (), place), now, now - 5)


def _place(at: int) -> LanePosition:
    return LanePosition(at, at + 50, at + 50, 0, SIZE)
