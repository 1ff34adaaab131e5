"""What is kept of reports at little cost says the same as every report taken in by itself."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.movement.history import (
    NO_HISTORY,
    UNKNOWN_RETENTION,
    LaneHistory,
    LanePosition,
    Retention,
    Waypoint,
)
from mirror.worker.protocol import LaneRate
from monitor.movement.judge import DEFAULT_RULES, judge_lane
from monitor.movement.states import LaneFacts, MovementState
from tests.builders import SOURCE, a_key

_SILENCE = DEFAULT_RULES.silence_seconds


class Step(NamedTuple):
    """What passes before a report, and what it says. `unsaid`: reports of the worker without the lane.
    `names_start`: the source has said where its log starts."""

    seconds: float
    moved: int
    waiting: int
    hidden: int
    age_ms: int | None
    start: int
    retention: Retention
    hidden_ms: int | None
    messages: int
    unsaid: bool
    names_start: bool


steady = st.builds(
    Step,
    st.sampled_from([0.7, 1.0, 5.0, 5.0, 5.0]),
    st.integers(1, 500),
    st.just(0) | st.integers(0, 50),
    st.sampled_from([0, 0, 0, 3]),
    st.integers(0, 9_000),
    st.sampled_from([0, 0, 0, 100]),
    st.just(UNKNOWN_RETENTION),
    st.none() | st.integers(0, 90_000),
    st.integers(1, 500),
    st.sampled_from([False, False, False, True]),
    st.sampled_from([True, True, True, False]),
)
anything = st.builds(
    Step,
    st.floats(0.5, 60),
    st.integers(-300, 500),
    st.integers(0, 500),
    st.sampled_from([0, 0, 10]),
    st.none() | st.integers(0, 40_000),
    st.sampled_from([0, 0, 100]),
    st.sampled_from([UNKNOWN_RETENTION, Retention(60_000, 10_000), Retention(None, 5_000)]),
    st.none() | st.integers(0, 90_000),
    st.sampled_from([0, 100]),
    st.booleans(),
    st.booleans(),
)


def test_what_a_record_measured_stays_known_when_nothing_is_copied_any_more() -> None:
    track = LaneTrack()
    for number, messages in enumerate([0, 0, 5, 5, 0]):
        at = 1_000 + number
        place = LanePosition(at, at, at, 10)
        track.note(
            LaneRate(a_key("t-0"), SOURCE, messages * 90.0, messages, 0, 0, (), place), number * 5.0, None
        )
    assert track.history.record_bytes == 90.0


@given(
    st.lists(st.lists(steady, max_size=12) | st.lists(anything, max_size=3), max_size=12), st.floats(0, 90)
)
def test_a_track_has_the_history_that_all_its_reports_make(phases: list[list[Step]], later: float) -> None:
    """After each report, and some time after the last."""
    track, whole = LaneTrack(), NO_HISTORY
    now, checkpoint, start = 1_000.0, 1_000, 10
    for step in (one for phase in phases for one in phase):
        heard_at = now + step.seconds / 2 if step.unsaid else (now if whole.newest else None)
        now += step.seconds
        checkpoint, start = max(checkpoint + step.moved, 0), start + step.start
        readable, named = checkpoint + step.waiting, start if step.names_start else -1
        place = LanePosition(
            checkpoint, readable, readable + step.hidden, named, step.retention, step.hidden_ms
        )
        rate = LaneRate(a_key("t-0"), SOURCE, step.messages * 90.0, step.messages, 0, step.age_ms, (), place)
        track.note(rate, now, heard_at)
        each = 90.0 if step.messages else None
        waypoint = Waypoint(now, *place[:3], step.age_ms, named, step.hidden_ms)
        whole = whole.after(waypoint, heard_at, step.retention, each)
        assert track.history == whole
        assert track.rate is rate
        _assert_in_time_is_ok(track, whole, now)
    _assert_in_time_is_ok(track, whole, now + later)


def _assert_in_time_is_ok(track: LaneTrack, whole: LaneHistory, now: float) -> None:
    found = judge_lane(whole, LaneFacts(), now)
    if track.is_in_time(now, _SILENCE):
        assert found.state is MovementState.OK, found
        assert track.may_lose or found.seconds_to_loss is None
    elif whole.newest is not None:
        is_over = now - whole.newest.at > _SILENCE
        assert is_over or not whole.is_in_time, "what is easily seen is seen"
