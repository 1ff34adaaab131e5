"""Test the time to loss: by time, size and movement of the log start, against the time to catch up."""

from __future__ import annotations

import pytest

from mirror.model.movement.history import UNLIMITED, Retention
from mirror.model.movement.loss import backlog_share, loss_as_it_moves, seconds_to_loss
from monitor.movement.judge import judge_lane
from monitor.movement.states import LaneFacts, MovementState
from tests.fakes.partition_lives import PartitionLife

HOUR_MS = 3_600_000


def behind(seconds: int = 600) -> PartitionLife:
    """Return a partition that copied nothing for that time."""
    return PartitionLife().run(60, 100).run(seconds, 100, 0)


def left(life: PartitionLife, later: float = 0.0) -> float | None:
    return seconds_to_loss(life.history, life.now + later)


def test_retention_by_time_is_what_is_left_at_the_age_of_the_oldest_record() -> None:
    life = behind().keeping(Retention(HOUR_MS, UNLIMITED))
    assert left(life) == pytest.approx(3_600 - 600, abs=2)
    assert left(life, later=1_000) == pytest.approx(2_000, abs=2), "time passes without a report"
    assert left(life, later=9_000) == 0.0


def test_retention_goes_by_the_time_stamp_of_the_record() -> None:
    life = PartitionLife(skew_ms=1_800_000).run(60, 100).run(600, 100, 0).keeping(Retention(HOUR_MS))
    assert left(life) == pytest.approx(3_600 - 600 - 1_800, abs=2)


def test_retention_by_size_is_the_room_that_is_left_for_what_comes() -> None:
    life = behind().keeping(Retention(UNLIMITED, 12_000_000), record_bytes=100.0)
    waiting_bytes, inflow = 600 * 100 * 100, 100 * 100
    assert left(life) == pytest.approx((12_000_000 - waiting_bytes) / inflow, rel=0.01)
    assert left(behind().keeping(Retention(UNLIMITED, 12_000_000), record_bytes=None)) is None


def test_the_earlier_one_counts() -> None:
    life = behind().keeping(Retention(HOUR_MS, 6_500_000), record_bytes=100.0)
    assert left(life) == pytest.approx(50, abs=2)


@pytest.mark.parametrize("kept", [Retention(), Retention(UNLIMITED, UNLIMITED)])
def test_what_is_not_known_or_never_deleted_has_no_time(kept: Retention) -> None:
    assert left(behind().keeping(kept)) is None


def test_where_nothing_waits_nothing_can_be_lost() -> None:
    assert left(PartitionLife().run(60, 100).keeping(Retention(1, 1))) is None
    assert left(PartitionLife()) is None


def retained(steps: int, every: float = 300, step: int = 30_000) -> PartitionLife:
    """Return a partition that copies nothing while retention deletes records in steps."""
    life = behind()
    life.log_start = life.checkpoint - 120_000
    for _ in range(steps):
        life.run(every, 100, 0)
        life.log_start += step
    return life.run(5, 100, 0)


def test_the_start_of_the_log_that_comes_nearer_says_it_without_any_setting() -> None:
    assert left(retained(3)) == pytest.approx(30_000 / 100, abs=10), "brokers delete every five minutes"
    assert left(retained(4)) == 0.0


def test_a_start_that_does_not_move_any_more_says_nothing() -> None:
    assert left(retained(3).run(500, 100, 0)) == 0.0
    assert left(retained(2).run(500, 100, 0)) is not None
    assert left(retained(2).run(700, 100, 0)) is None, "two intervals have passed"


def test_one_step_of_the_start_is_no_rate() -> None:
    assert left(retained(0)) is None
    assert left(retained(1)) is None


def test_another_log_begins_another_count() -> None:
    life = retained(3)
    life.log_start = 0
    assert left(life.run(5, 100, 0)) is None


def test_records_are_lost_where_catching_up_takes_longer_than_they_are_kept() -> None:
    slow = behind().run(60, 100, 120).keeping(Retention(HOUR_MS))
    found = judge_lane(slow.history, LaneFacts(), slow.now)
    assert found.eta_seconds is not None
    assert found.seconds_to_loss is not None
    assert not found.loses_data
    short = slow.keeping(Retention(700_000))
    assert not judge_lane(short.history, LaneFacts(), short.now).loses_data, "the oldest record gets younger"
    short = behind().run(60, 100, 90).keeping(Retention(700_000))
    assert judge_lane(short.history, LaneFacts(), short.now).loses_data
    stuck = behind().keeping(Retention(HOUR_MS))
    assert judge_lane(stuck.history, LaneFacts(), stuck.now).loses_data, "not catching up"
    kept = behind().keeping(Retention(UNLIMITED, UNLIMITED))
    assert not judge_lane(kept.history, LaneFacts(), kept.now).loses_data


def test_a_lane_that_keeps_up_loses_nothing_though_something_always_waits() -> None:
    life = PartitionLife().run(60, 100, 100).keeping(Retention(HOUR_MS))
    life.end += 50
    found = judge_lane(life.run(5, 100, 100).history, LaneFacts(), life.now)
    assert (found.state, found.loses_data) == (MovementState.OK, False)
    assert found.seconds_to_loss is not None


def test_what_a_transaction_hides_is_deleted_like_anything_else() -> None:
    life = PartitionLife().run(60, 100).keeping(Retention(HOUR_MS))
    life.hidden = life.end
    life.run(300, 100)
    assert left(life) is None, "the age was not read yet"
    life.hidden_ms = 300_000
    life.run(5, 100)
    assert left(life) == pytest.approx(3_300)
    found = judge_lane(life.history, LaneFacts(), life.now + 10)
    assert found.state is MovementState.WAITING_FOR_TRANSACTION
    assert found.hidden_ms == 310_000
    assert found.seconds_to_loss == pytest.approx(3_290)
    assert "5 min" in found.reason
    assert found.loses_data, "its end is unknown"


def loses(life: PartitionLife, throttled: str = "") -> bool:
    return judge_lane(life.history, LaneFacts(throttled=throttled), life.now).loses_data


def began(backlog: int = 3_000) -> PartitionLife:
    """Return a new partition with a single report."""
    life = PartitionLife(backlog).keeping(Retention(3_600_000, 4_000_000), record_bytes=1_000.0)
    life.report()
    return life


def test_a_new_lane_that_works_off_its_backlog_keeps_ahead_from_its_second_report_on() -> None:
    life = began()
    assert not loses(life), "one report is not a trend"
    for _ in range(40):
        life.run(5, 200, 205)
        assert left(life) is not None
        assert not loses(life), "catching up, however slowly"
        assert not loses(life, "a quota")


def test_by_time_a_lane_keeps_ahead_where_the_oldest_record_grows_younger() -> None:
    """The backlog is as old as the retention of one hour; each second copies ten seconds of it."""
    life = PartitionLife(3_590).keeping(Retention(HOUR_MS))
    life.report()
    life.run(10, 1, 10)
    found = judge_lane(life.history, LaneFacts(), life.now)
    assert found.seconds_to_loss == pytest.approx(100, abs=10)
    assert found.eta_seconds is None, "too little data"
    assert not found.loses_data
    assert loss_as_it_moves(life.history, life.now) is None


def test_a_lane_that_falls_behind_slowly_loses_records_later_than_one_that_stands() -> None:
    life = began().run(120, 100, 50)
    standing, moving = left(life), loss_as_it_moves(life.history, life.now)
    assert standing is not None
    assert moving == pytest.approx(2 * standing, rel=0.05)
    assert loses(life)
    assert loses(life, "a quota")


def test_a_lane_that_becomes_slower_is_judged_by_its_last_speed() -> None:
    life = began().run(120, 100, 110)
    assert not loses(life)
    assert loses(life.run(10, 100, 50))


def test_one_gain_does_not_clear_a_lane_that_falls_behind() -> None:
    life = began().run(100, 100, 0)
    for _ in range(3):
        life.run(15, 100, 0).run(10, 100, 120)
        assert loses(life)


def test_what_is_late_with_fewer_records_than_before_may_still_be_lost() -> None:
    """Records stop arriving, and a tenth of the former rate is copied: the remaining records grow older."""
    life = PartitionLife().run(60, 100).run(600, 100, 0).keeping(Retention(700_000))
    for _ in range(8):
        life.run(5, 0, 10)
    found = judge_lane(life.history, LaneFacts(), life.now)
    assert found.eta_seconds is not None
    assert found.loses_data


def test_by_movement_a_lane_keeps_ahead_that_is_quicker_than_the_start_of_the_log() -> None:
    life = retained(3)
    assert loses(life)
    life.run(120, 100, 1_000)
    assert left(life) is not None
    assert not loses(life)


def after_a_burst(seconds: int = 30, inflow: float = 4_000.0) -> PartitionLife:
    """Return a partition whose backlog is 4 % of the retained bytes at the end of a burst."""
    each = 1_000.0
    kept = int(seconds * (inflow - 200) * each / 0.04)
    life = PartitionLife().keeping(Retention(UNLIMITED, kept), record_bytes=each).run(300, 100)
    return life.run(seconds, inflow, 200)


def test_a_burst_of_half_a_minute_loses_nothing() -> None:
    life = after_a_burst()
    assert backlog_share(life.history) == pytest.approx(0.04, rel=0.1)
    for _ in range(120):
        assert not loses(life)
        life.run(5, 100, 200)


def test_a_backlog_that_shrinks_loses_nothing_however_it_grew() -> None:
    """The backlog grows for two minutes and then clearly shrinks for half a minute."""
    life = began().run(120, 100, 50)
    assert loses(life)
    assert not loses(life.run(30, 100, 150))


def test_a_loss_that_is_nearer_than_a_slope_waits_for_none() -> None:
    life = PartitionLife(3_550).keeping(Retention(HOUR_MS))
    life.report()
    life.run(10, 1, 0.5)
    found = judge_lane(life.history, LaneFacts(), life.now)
    assert found.seconds_to_loss == pytest.approx(40, abs=10)
    assert found.loses_data


@pytest.mark.parametrize(
    ("kept", "share"),
    [
        (Retention(6_000_000, UNLIMITED), 0.1),
        (Retention(UNLIMITED, 60_000_000), 0.1),
        (Retention(6_000_000, 12_000_000), 0.5),
        (Retention(UNLIMITED, UNLIMITED), None),
        (Retention(1), 1.0),
        (Retention(), None),
    ],
)
def test_the_share_of_what_is_kept_that_waits(kept: Retention, share: float | None) -> None:
    found = backlog_share(behind().keeping(kept, record_bytes=100.0).history)
    assert found == (None if share is None else pytest.approx(share, rel=0.02))


def test_the_share_is_known_by_movement_without_any_setting() -> None:
    life = retained(3)
    assert backlog_share(life.history) == pytest.approx(
        (life.end - life.checkpoint) / (life.end - life.log_start)
    )
    assert backlog_share(PartitionLife().history) is None


def test_a_stopped_lane_is_not_cleared_by_its_earlier_speed() -> None:
    life = began().run(60, 100, 110)
    paused = judge_lane(life.history, LaneFacts(by_user=True), life.now)
    assert paused.loses_data
