"""The compact state of a lane gives the same results as the history of every report."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from mirror.instance.workers.lane_track import LaneTrack
from mirror.model.movement.history import (
    LATE_MS,
    NO_HISTORY,
    UNKNOWN_RETENTION,
    LaneHistory,
    LanePosition,
    LaneSample,
    Retention,
)
from mirror.model.movement.position_watch import PositionWatch
from mirror.worker.protocol import LaneRate
from monitor.movement.judge import DEFAULT_RULES, judge_lane
from monitor.movement.states import LaneFacts, MovementState
from tests.builders import SOURCE, a_key

_SILENCE = DEFAULT_RULES.silence_seconds


class Step(NamedTuple):
    """Time before a report, and its contents. `unsaid`: the worker also reported without the lane in between.

    `names_start`: the source has reported its log start. `lives`: number of times that the log was replaced.
    """

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
    lives: int = 0

    def position(self, checkpoint: int, start: int, life: int = 0) -> LanePosition:
        readable = checkpoint + self.waiting
        end, named = readable + self.hidden, start if self.names_start else -1
        return LanePosition(checkpoint, readable, end, named, self.retention, self.hidden_ms, life=life)

    def rate(self, place: LanePosition | None) -> LaneRate:
        copied = self.messages
        return LaneRate(a_key("t-0"), SOURCE, copied * 90.0, copied, 0, self.age_ms, (), place)

    def added_to(
        self, whole: LaneHistory, place: LanePosition, now: float, answered_at: float | None
    ) -> LaneHistory:
        waypoint = LaneSample(now, *place[:3], self.age_ms, place.log_start, place.hidden_ms, place.life)
        return whole.after(waypoint, answered_at, place.retention, 90.0 if self.messages else None)


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
    st.sampled_from([0, 0, 1]),
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
    """Compare after each report, and some time after the last."""
    track, whole = LaneTrack(), NO_HISTORY
    now, checkpoint, start, life = 1_000.0, 1_000, 10, 0
    for step in (one for phase in phases for one in phase):
        answered_at = now + step.seconds / 2 if step.unsaid else (now if whole.newest else None)
        now, life = now + step.seconds, life + step.lives
        checkpoint, start = max(checkpoint + step.moved, 0), start + step.start
        place = step.position(checkpoint, start, life)
        rate = step.rate(place)
        track.note(rate, now, answered_at)
        whole = step.added_to(whole, place, now, answered_at)
        assert track.history == whole
        assert track.rate is rate
        _assert_late_by_age(whole)
        _assert_in_time_is_ok(track, whole, now)
    _assert_in_time_is_ok(track, whole, now + later)


@given(
    st.lists(st.lists(steady, max_size=12) | st.lists(anything, max_size=3), max_size=12),
    st.integers(0, 2),
)
def test_what_a_worker_withholds_changes_nothing_of_what_is_known(
    phases: list[list[Step]], silences: int
) -> None:
    """Each reported position includes the withheld ones; meanwhile the lane is in time by the full rules.

    `silences`: number of half minutes without reports of the worker at the end.
    """
    watch, track, whole = PositionWatch(), LaneTrack(), NO_HISTORY
    now, checkpoint, start, before, life = 1_000.0, 1_000, 10, -1.0, 0
    for step in (one for phase in phases for one in phase):
        answered_at = now + step.seconds / 2 if step.unsaid else (now if whole.newest else None)
        now, life = now + step.seconds, life + step.lives
        checkpoint, start = max(checkpoint + step.moved, 0), start + step.start
        place = _as_workers_say(step, step.position(checkpoint, start, life))
        whole = step.added_to(whole, place, now, answered_at)
        moments = now, before if answered_at is None else answered_at
        copied = step.messages, step.messages * 90
        watch.set_generation(0, life)
        is_withheld = watch.withholds(moments, *place[:4], step.age_ms, copied)
        track.note(step.rate(None if is_withheld else watch.report(place)), now, answered_at)
        if is_withheld:
            assert track.is_in_time(now, _SILENCE)
        else:
            assert track.history == whole
        _assert_in_time_is_ok(track, whole, now)
        before = now
    for _ in range(silences):
        track.unwatch(now)
        assert whole.newest is None or not whole.newest.waiting or not track.is_in_time(now + 31, _SILENCE)


def _as_workers_say(step: Step, place: LanePosition) -> LanePosition:
    """Return the position as a worker reports it.

    Retention is looked up only for late lanes, and only hidden records have an age.
    """
    is_late = step.waiting + step.hidden > 0 and (
        step.age_ms is None or step.age_ms > LATE_MS or step.hidden > 0
    )
    place = place if step.hidden else place._replace(hidden_ms=None)
    return place if is_late else place._replace(retention=UNKNOWN_RETENTION)


def _is_withheld(watch: PositionWatch, number: int, start: int = 3, records: int = 1) -> bool:
    """Return whether a report is withheld: one every 5 s, of a lane that advances by `records` with each."""
    at, checkpoint = 5.0 * number, number * records
    copied, end = (records, records * 100), checkpoint + 9
    return watch.withholds((at, at - 5), checkpoint, end, end, start, 50, copied)


def _reported_moments(kept_seconds: int, retention: Retention = UNKNOWN_RETENTION) -> list[float]:
    """Return the report times in an hour, with a source that deletes such old records every five minutes."""
    watch, reported = PositionWatch(), []
    for number in range(720):
        at = 5.0 * number
        start = 50 * max(number // 60 * 60 - kept_seconds // 5, 0)
        if not _is_withheld(watch, number, start, 50):
            reported.append(at)
            end = 50 * number + 9
            watch.report(LanePosition(50 * number, end, end, start, retention))
    return reported


def test_lanes_in_time_say_nothing_of_where_they_stand() -> None:
    watch = PositionWatch()
    reported = [number for number in range(1_000) if not _is_withheld(watch, number)]
    assert reported == [0]


def test_a_quiet_lane_in_time_says_nothing_when_it_has_records_again() -> None:
    """Its worker reports every 5 s, and includes the lane every 40 s."""
    watch, reported = PositionWatch(), []
    for number in range(100):
        at, checkpoint = 40.0 * number, number
        if not watch.withholds((at, at - 5), checkpoint, checkpoint, checkpoint, 3, 0, (1, 90)):
            reported.append(number)
            watch.report(LanePosition(checkpoint, checkpoint, checkpoint, 3))
    assert reported == [0]


def test_a_time_to_loss_that_is_near_is_said_every_minute() -> None:
    reported = _reported_moments(600)
    assert reported[:3] == [0.0, 900.0, 1_200.0], "not reported when the log start first moved"
    assert max(later - sooner for sooner, later in pairwise(reported[2:])) == 60.0
    assert set(range(1_500, 3_600, 300)) <= set(reported), "no report at each move"
    assert len(reported) < 60


def test_a_time_to_loss_that_is_far_is_said_when_a_tenth_of_it_has_passed() -> None:
    assert _reported_moments(2_400) == [0.0, 2_700.0, 3_000.0]
    kept = Retention(86_400_000, 10_000_000)
    assert _reported_moments(7_200, kept) == [0.0, 1_005.0, 2_005.0, 3_005.0], "full in 10,000 s"


def test_a_retention_by_size_that_is_soon_full_is_said_every_minute() -> None:
    """The partition grows by 1,000 bytes per second."""
    reported = _reported_moments(7_200, Retention(None, 1_000_000))
    assert reported == [0.0, *(5.0 + 60 * number for number in range(60))]


def test_the_first_position_of_a_generation_is_reported() -> None:
    watch = PositionWatch()
    found = []
    for number, (generation, life) in enumerate([(1, 0), (1, 0), (2, 0), (2, 0), (2, 1), (2, 1), (2, 1)]):
        watch.set_generation(generation, life)
        if number == 6:
            watch.forget()
        found.append(_is_withheld(watch, number))
    assert found == [False, True, False, True, False, True, False]


def _assert_late_by_age(whole: LaneHistory) -> None:
    newest, age = whole.newest, whole.age_ms
    assert newest is not None
    assert (whole.late_since is not None) == (newest.waiting > 0 and (age is None or age > LATE_MS))


def _assert_in_time_is_ok(track: LaneTrack, whole: LaneHistory, now: float) -> None:
    found = judge_lane(whole, LaneFacts(), now)
    if track.is_in_time(now, _SILENCE):
        assert found.state is MovementState.OK, found
        assert track.may_lose or found.seconds_to_loss is None
    elif whole.newest is not None:
        is_over = now - whole.newest.at > _SILENCE
        assert is_over or not whole.is_in_time, "the fast check misses a lane in time"
