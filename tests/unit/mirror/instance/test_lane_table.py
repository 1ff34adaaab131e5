"""Test the history and states of lanes that an instance keeps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirror.instance.workers.lane_table import LaneLoss, LanePhase, LaneStatus, LaneTable
from mirror.instance.workers.troubles import troubles_of
from mirror.model.datastreams.lanes import (
    NO_WINDOWS,
    LaneHeldBack,
    LanePaused,
    LaneResumed,
    LaneStarted,
    LaneWindows,
    PauseCause,
    Unanswered,
    WindowLimit,
)
from mirror.model.identifiers import InstanceName
from mirror.model.movement.history import UNKNOWN_RETENTION, CaughtUpPosition, LanePosition, Retention
from mirror.worker.protocol import LaneRate, LimitedLane, WaitingLane
from monitor.lane_verdicts import judged
from monitor.movement.summary import PartitionMovement, movement_of
from tests.builders import SOURCE, a_key, a_spec
from tests.fakes.clock import ManualClock

KEY = a_key("t-0")


def a_table() -> tuple[LaneTable, ManualClock]:
    clock = ManualClock()
    table = LaneTable(clock)
    table.begin(a_spec("t-0"), 0)
    table.note(LaneStarted(KEY, 0))
    return table, clock


def state_of(table: LaneTable) -> LaneStatus:
    return table.states[KEY]


def a_rate(position: LanePosition | None, lag_ms: int | None = 0) -> LaneRate:
    return LaneRate(KEY, SOURCE, 5_000.0, 50.0, 0, lag_ms, (), position)


def test_a_state_lasts_since_phase_and_cause_became_it() -> None:
    table, clock = a_table()
    began = clock.monotonic()
    assert state_of(table).since == began
    clock.advance(10)
    table.note(LaneHeldBack(KEY, "a quota"))
    table.note(LaneResumed(KEY))
    assert state_of(table).since == began, "it was copying before"
    table.note(LanePaused(KEY, "no answer since 8:00", PauseCause.SOURCE_AWAY))
    clock.advance(10)
    table.note(LanePaused(KEY, "still no answer", PauseCause.SOURCE_AWAY))
    found = state_of(table)
    assert (found.since, found.cause, found.reason) == (
        began + 10,
        PauseCause.SOURCE_AWAY,
        "still no answer",
    )
    table.note(LanePaused(KEY, "too large"))
    assert (state_of(table).since, state_of(table).cause) == (began + 20, PauseCause.OTHER)
    clock.advance(5)
    table.note(LaneResumed(KEY))
    assert (state_of(table).since, state_of(table).cause) == (began + 25, PauseCause.OTHER)


def test_a_lane_whose_worker_was_lost_remembers_that_when_it_begins_again() -> None:
    table, clock = a_table()
    lost_at = clock.monotonic()
    table.lose([KEY])
    assert KEY not in table.states
    clock.advance(2)
    table.begin(a_spec("t-0"), 1)
    table.note(LaneStarted(KEY, 0))
    assert state_of(table).loss == LaneLoss(lost_at)
    table.forget([KEY])
    table.begin(a_spec("t-0"), 1)
    assert state_of(table).loss is None, "its worker released the lane"


@pytest.mark.parametrize(("apart", "instance"), [(1.0, InstanceName("one")), (9.0, None)])
def test_a_worker_whose_lease_ended_was_lost_with_the_session(
    apart: float, instance: InstanceName | None
) -> None:
    table, clock = a_table()
    lost_at = clock.monotonic()
    table.lose([KEY])
    clock.advance(apart)
    table.lose([], InstanceName("one"))
    table.begin(a_spec("t-0"), 1)
    assert state_of(table).loss == LaneLoss(lost_at, instance)


def test_a_lane_begins_with_the_latest_loss_of_a_process() -> None:
    table, clock = a_table()
    table.lose([KEY], InstanceName("one"))
    own = LaneLoss(clock.monotonic(), InstanceName("one"))
    other = LaneLoss(clock.monotonic() - 1, InstanceName("two"))
    table.begin(a_spec("t-0"), 1, other)
    assert state_of(table).loss == own
    table.begin(a_spec("t-0"), 1, other)
    assert state_of(table).loss == other
    table.begin(a_spec("t-0"), 1)
    assert state_of(table).loss is None


def test_reports_become_the_history_of_a_lane() -> None:
    table, clock = a_table()
    table.measure([a_rate(LanePosition(10, 10, 10))])
    clock.advance(3_600)
    table.measure([a_rate(LanePosition(10, 12, 12, 3, Retention(1, 2)), None)], clock.monotonic() - 5)
    history = state_of(table).history
    assert [one.at - clock.monotonic() for one in history.waypoints] == [-3_600, -5, 0]
    assert history.age_ms == 5_000, "a record arrived after the previous report"
    assert (history.retention, history.record_bytes) == (Retention(1, 2), 100.0)
    clock.advance(5)
    table.measure([a_rate(LanePosition(12, 12, 12, 3, UNKNOWN_RETENTION))])
    assert state_of(table).history.retention == Retention(1, 2), "it is only requested for late lanes"


def test_what_an_open_transaction_hides_is_as_old_as_its_first_record() -> None:
    """Before that record is read, the age is the time for which the lane has waited at the transaction."""
    table, clock = a_table()

    def measured(position: LanePosition, lag_ms: int | None = 0) -> tuple[int | None, int | None]:
        records = position.end - position.checkpoint
        table.measure([replace(a_rate(position, lag_ms), lag_records=records)])
        return state_of(table).lag

    assert measured(LanePosition(10, 10, 10)) == (0, 0)
    clock.advance(1)
    assert measured(LanePosition(10, 10, 1_020)) == (1_010, 0)
    clock.advance(4)
    assert measured(LanePosition(10, 10, 1_020)) == (1_010, 4_000)
    clock.advance(4)
    assert measured(LanePosition(10, 10, 1_020, hidden_ms=9_000)) == (1_010, 9_000)
    assert measured(LanePosition(10, 12, 1_020), 11_000) == (1_010, 11_000), "the oldest can be read"
    assert measured(LanePosition(12, 12, 1_020), None) == (1_008, None)
    assert measured(LanePosition(1_020, 1_020, 1_020)) == (0, 0)


def test_a_watched_lane_is_in_time_until_its_worker_says_something_else_or_nothing() -> None:
    table, clock = a_table()
    table.measure([a_rate(LanePosition(10, 30, 30, is_watched=True))])
    began = clock.monotonic()
    clock.advance(3_600)
    table.measure([a_rate(None)], clock.monotonic() - 5)
    table.mute([KEY])
    table.unmute({KEY})
    assert state_of(table).track.is_in_time(clock.monotonic(), 30.0), "even after its worker was silent"
    withheld = (CaughtUpPosition(began + 5, 20, 30, 7), CaughtUpPosition(began + 3_600, 25, 30, 7))
    table.unwatch([KEY], began + 3_600)
    assert state_of(table).track.is_in_time(clock.monotonic() + 30, 30.0)
    assert not state_of(table).track.is_in_time(clock.monotonic() + 31, 30.0)
    clock.advance(5)
    table.measure([a_rate(LanePosition(25, 30, 30, withheld=withheld))], clock.monotonic() - 5)
    history = state_of(table).history
    assert [(one.at - began, one.checkpoint) for one in history.waypoints] == [
        (0, 10),
        (5, 20),
        (3_600, 25),
        (3_605, 25),
    ]
    assert history.stuck_since == began + 3_600


def test_a_worker_that_says_nothing_of_positions_makes_no_history() -> None:
    table, _ = a_table()
    table.measure([a_rate(None)])
    assert state_of(table).history.newest is None
    assert state_of(table).rate is not None


def test_an_answer_is_overdue_until_the_next_report() -> None:
    table, _ = a_table()
    overdue = [WaitingLane(KEY, Unanswered(None, 4.0)), WaitingLane(a_key("gone-0"), Unanswered(2.0, None))]
    table.measure([a_rate(None)], waiting=overdue)
    assert state_of(table).track.unanswered == (None, 4.0)
    table.mute([KEY])
    assert state_of(table).track.unanswered is None, "a silent worker may wait for anything"
    table.unmute({KEY})
    table.measure([a_rate(None)], waiting=overdue)
    table.measure([a_rate(None)])
    assert state_of(table).track.unanswered is None


def test_a_window_limits_a_lane_until_the_next_report() -> None:
    table, _ = a_table()
    windows = LaneWindows(destination=WindowLimit(3, 125_000, 100.0, 24, 64))
    table.measure([a_rate(None)], limited=[LimitedLane(KEY, windows), LimitedLane(a_key("gone-0"), windows)])
    assert state_of(table).track.windows == windows
    table.measure([a_rate(None)])
    assert state_of(table).track.windows == NO_WINDOWS


def test_a_worker_that_does_not_answer_is_a_cause_of_its_own() -> None:
    table, clock = a_table()
    table.measure([a_rate(LanePosition(10, 10, 10))])
    clock.advance(20)
    table.mute([KEY])
    silent = state_of(table)
    assert (silent.phase, silent.cause, silent.since) == (
        LanePhase.PAUSED,
        PauseCause.SILENT_WORKER,
        clock.monotonic(),
    )
    table.unmute({KEY})
    again = state_of(table)
    assert (again.phase, again.cause, again.reason) == (LanePhase.COPYING, PauseCause.OTHER, "")
    assert again.history == silent.history
    assert again.rate is None, "former measurements are outdated"


def test_the_offset_of_a_pause_is_a_field() -> None:
    """`headrace status` compares reasons; those of one problem must not differ in the offset."""
    table, _ = a_table()
    table.note(LanePaused(KEY, "no such topic", offset=7))
    table.mute([KEY])
    table.unmute({KEY})
    paused = state_of(table)
    assert (paused.reason, paused.offset) == ("no such topic", 7)
    assert troubles_of({KEY: paused}, {}, {}) == {
        KEY.group: f"{KEY.partition} is stalled: no such topic (source offset 7)"
    }
    (count,) = movement_of([PartitionMovement(KEY.partition, judged(paused, 0.0), None)]).states
    assert (count.reason, count.offset, count.text) == ("no such topic", 7, paused.text)
    table.note(LaneResumed(KEY))
    assert (state_of(table).reason, state_of(table).offset) == ("", None)
