"""Test the states derived from histories of partitions: a table, and known false readings of other tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from mirror.model.datastreams.lanes import PauseCause
from mirror.model.movement.history import NO_HISTORY, LaneSample
from monitor.movement.judge import judge_lane
from monitor.movement.states import LaneActivity, LaneFacts, LaneJudgement, MovementState
from tests.fakes.partition_lives import PartitionLife

S, C, A = MovementState, PauseCause, LaneActivity
QUOTA = "the quota of its task throttles it for 90% of the time"
COPIES = LaneFacts()
HELD_BACK = LaneFacts(throttled=QUOTA)
NOTHING_YET = LaneFacts(since=PartitionLife().now)


@dataclass(frozen=True)
class Case:
    """A history and its expected state. `live`: creates the history; `later`: seconds without a report before
    it is judged."""

    name: str
    live: Callable[[], PartitionLife]
    state: MovementState | None
    facts: LaneFacts = COPIES
    later: float = 0.0


def paused(cause: PauseCause) -> LaneFacts:
    return LaneFacts(A.PAUSED, cause, "why")


def in_time(seconds: float = 60.0) -> PartitionLife:
    return PartitionLife().run(seconds, inflow=100)


def late(seconds: float = 60.0, copied: float = 0.0) -> PartitionLife:
    """Return a partition that was in time and then became slower than its source."""
    return in_time().run(seconds, inflow=100, copied=copied)


def hidden(seconds: float) -> PartitionLife:
    """Return a partition with a transaction that stays open, with more records behind it."""
    life = in_time()
    life.hidden = life.end
    return life.run(seconds, inflow=100)


def unreported(seconds: float) -> PartitionLife:
    """Return a partition at the end offset whose source stops responding."""
    life = in_time()
    life.source_answers = False
    return life.run(seconds)


def many_short_transactions() -> PartitionLife:
    life = in_time()
    for _ in range(30):
        life.hidden = life.end
        life.run(4, inflow=100, every=2)
        life.hidden = None
        life.run(1, inflow=100, every=1)
    return life


def sawtooth(rise: float = 1_500, dip: float = 12_000) -> PartitionLife:
    """Return a partition that is always about 200,000 records behind, with a dip in each window."""
    life = PartitionLife(200_000)
    for _ in range(6):
        life.run(20, inflow=rise, copied=0.5).run(5, inflow=0, copied=dip / 5)
    return life


def compacted() -> PartitionLife:
    """Return a partition in time whose offsets jump because compaction has removed most records."""
    life = in_time()
    for _ in range(6):
        life.end += 50_000
        life.run(5, inflow=1)
    return life


CASES = [
    Case("a flow that is kept up with", in_time, S.OK),
    Case("a flow that began just now", lambda: in_time(5), S.OK),
    Case("an idle topic that was copied once", lambda: in_time().run(600), S.OK),
    Case("an idle topic after a day", in_time, S.OK, later=86_400),
    Case("a topic that never had a record", lambda: PartitionLife().run(5), S.OK),
    Case("a record an hour", lambda: in_time().run(3_600).run(5, inflow=1), S.OK),
    Case(
        "a sparse topic with a record that waits for a moment",
        lambda: in_time().run(3_600).run(5, 1, 0),
        S.OK,
    ),
    Case(
        "a burst that is copied in seconds", lambda: in_time().run(5, 10_000, 8_000).run(5, 100, 8_000), S.OK
    ),
    Case("a compacted topic", compacted, S.OK),
    Case("some offsets behind, always", lambda: PartitionLife(3).run(120, 100, 100), S.OK),
    Case("short transactions, one after the other", many_short_transactions, S.OK),
    Case("an open transaction for some seconds", lambda: hidden(15), S.OK),
    Case("caught up a moment ago", lambda: late(60).run(120, 100, 400), S.OK),
    Case("a stop of three seconds", lambda: in_time().run(3, 100, 0).run(10, 100, 200), S.OK),
    Case("time stamps of last year", lambda: PartitionLife(skew_ms=31_536_000_000).run(60, 100), S.OK),
    Case("old time stamps, a little behind", lambda: _stamped(31_536_000_000, 500), S.OK),
    Case("time stamps of tomorrow", lambda: PartitionLife(skew_ms=-86_400_000).run(60, 100), S.OK),
    Case("time stamps of tomorrow, a little behind", lambda: _stamped(-86_400_000, 500), S.OK),
    Case("records without time stamps", lambda: PartitionLife(age_is_known=False).run(60, 100), S.OK),
    Case(
        "append times of a source whose clock is 2 s ahead",
        lambda: PartitionLife(skew_ms=-2_000).run(60, 100),
        S.OK,
    ),
    Case("no answer of the source for some seconds", lambda: unreported(10), None),
    Case("throttled by a quota, no request for seconds", lambda: unreported(10), S.THROTTLED, HELD_BACK),
    Case("a quota that does no harm", in_time, S.OK, HELD_BACK),
    Case("slower than the source", lambda: late(60, copied=50), S.WARN),
    Case("much slower than the source", lambda: late(600, copied=1), S.WARN),
    Case("as fast as the source, and minutes behind", lambda: _behind(300, 100, 100), S.WARN),
    Case("slower and slower", lambda: late(60, 80).run(60, 100, 40), S.WARN),
    Case("minutes behind, with one dip in the window", sawtooth, S.WARN),
    Case("behind, with time stamps of tomorrow", lambda: _stamped(-86_400_000, 50), S.WARN),
    Case("behind, with time stamps of last year", lambda: _stamped(31_536_000_000, 50), S.WARN),
    Case(
        "behind, without time stamps", lambda: PartitionLife(600, age_is_known=False).run(60, 100, 50), S.WARN
    ),
    Case(
        "it caught up, and falls behind again", lambda: late(120).run(60, 100, 250).run(60, 200, 100), S.WARN
    ),
    Case("behind, with falling throughput", lambda: _behind(300, 200, 150), S.WARN),
    Case("nothing is copied, records come", lambda: late(60), S.STALL),
    Case("nothing is copied, no record comes", lambda: PartitionLife(600).run(60, 0, 0), S.STALL),
    Case("one record is waited for", lambda: in_time().run(5, 0.3, 0).run(120, 0, 0), S.STALL),
    Case("stuck for a day", lambda: late(3_000), S.STALL),
    Case("it caught up, and then was stuck", lambda: _behind(300, 0, 500).run(60, 100, 0), S.STALL),
    Case(
        "stuck, with records without time stamps",
        lambda: PartitionLife(60, age_is_known=False).run(60, 1, 0),
        S.STALL,
    ),
    Case("a batch that no answer has room for", lambda: in_time().run(40, 1, 0), S.STALL),
    Case(
        "it never began to copy",
        PartitionLife,
        S.STALL,
        LaneFacts(A.BEGINNING, since=PartitionLife().now),
        60,
    ),
    Case("it says nothing more, and records wait", lambda: late(30), S.STOP, later=60),
    Case("no reports while catching up", lambda: _behind(300, 0, 2), S.STOP, later=60),
    Case("its worker does not answer", in_time, S.STOP, paused(C.SILENT_WORKER)),
    Case("no task has it", PartitionLife, S.STOP, LaneFacts(A.UNCOPIED, reason="no task has room for it")),
    Case("its worker process has ended", in_time, S.STOP, LaneFacts(A.UNCOPIED, reason="no worker process")),
    Case("its position went back", lambda: in_time().rewind(500), S.REWIND),
    Case("it went back twice", lambda: in_time().rewind(500).run(5, 100, 20).rewind(90), S.REWIND),
    Case("it went back and copies again", lambda: in_time().rewind(900).run(5, 100, 120), S.REWIND),
    Case("it went back, and stays there", lambda: in_time().rewind(500).run(60, 100, 0), S.STALL),
    Case("it goes on with another log", lambda: in_time().of_another_log().run(60, 100), S.OK),
    Case(
        "continues with another log, then stalls", lambda: in_time().of_another_log().run(60, 1, 0), S.STALL
    ),
    Case("rewound, back at the former position", lambda: in_time().rewind(500).run(30, 100), S.OK),
    Case("rewound, beyond the former position", lambda: in_time().rewind(500).run(60, 100, 600), S.OK),
    Case("a person paused it", lambda: late(60), S.PAUSED_BY_USER, LaneFacts(A.UNCOPIED, by_user=True)),
    Case(
        "a person paused what was caught up", in_time, S.PAUSED_BY_USER, LaneFacts(A.UNCOPIED, by_user=True)
    ),
    Case("it paused itself for a record", lambda: late(60), S.PAUSED_BY_ITSELF, paused(C.OTHER)),
    Case("it paused itself, caught up", in_time, S.PAUSED_BY_ITSELF, paused(C.OTHER)),
    Case("a quota, and it does not catch up", lambda: late(60, 50), S.THROTTLED, HELD_BACK),
    Case("a quota that lets nothing through", lambda: late(60), S.THROTTLED, HELD_BACK),
    Case("throttled by the source's brokers, no requests", lambda: unreported(30), S.THROTTLED, HELD_BACK),
    Case("a quota, and it catches up all the same", lambda: _behind(300, 100, 150), S.CATCHING_UP, HELD_BACK),
    Case("the source does not answer", lambda: late(60), S.SOURCE_AWAY, paused(C.SOURCE_AWAY)),
    Case("the source does not say whether there is more", lambda: unreported(30), S.SOURCE_AWAY),
    Case("the source end was never reported", PartitionLife, S.SOURCE_AWAY, NOTHING_YET, 60),
    Case(
        "the source does not answer from the beginning", PartitionLife, S.SOURCE_AWAY, paused(C.SOURCE_AWAY)
    ),
    Case("the destination does not answer", lambda: late(60), S.DESTINATION_AWAY, paused(C.DESTINATION_AWAY)),
    Case("the destination is away, nothing waits", in_time, S.DESTINATION_AWAY, paused(C.DESTINATION_AWAY)),
    Case("the source was truncated", lambda: late(60), S.TRUNCATED, paused(C.TRUNCATED)),
    Case("the topic was created again", in_time, S.RECREATED, paused(C.RECREATED)),
    Case("a transaction stays open", lambda: hidden(60), S.WAITING_FOR_TRANSACTION),
    Case(
        "it was reported that a transaction hangs",
        lambda: hidden(90),
        S.WAITING_FOR_TRANSACTION,
        paused(C.OPEN_TRANSACTION),
    ),
    Case("behind, before an open transaction", lambda: behind_a_transaction(200), S.CATCHING_UP),
    Case("a backlog, twice as fast as the source", lambda: _behind(300, 100, 200), S.CATCHING_UP),
    Case("a backlog, a little faster than the source", lambda: _behind(300, 100, 110), S.CATCHING_UP),
    Case("a backlog, no new records", lambda: _behind(600, 0, 3), S.CATCHING_UP),
    Case("after an outage", lambda: late(300).run(60, 100, 300), S.CATCHING_UP),
    Case("it has just begun with a backlog", lambda: PartitionLife(6_000).run(10, 10, 100), S.CATCHING_UP),
    Case(
        "a backlog without time stamps",
        lambda: PartitionLife(9_000, age_is_known=False).run(60, 10, 60),
        S.CATCHING_UP,
    ),
    Case("it began a moment ago", PartitionLife, None, NOTHING_YET, 3),
    Case(
        "it looks for its position", PartitionLife, None, LaneFacts(A.BEGINNING, since=PartitionLife().now), 3
    ),
]


def _stamped(skew_ms: int, copied: float) -> PartitionLife:
    """Return a partition in time that then copies `copied` of 100 records per second."""
    return PartitionLife(skew_ms=skew_ms).run(60, 100).run(60, 100, copied)


def _behind(seconds: int, inflow: float, copied: float) -> PartitionLife:
    """Return a partition that copied nothing for `seconds` and then copies for a minute."""
    return in_time().run(seconds, 100, 0).run(60, inflow, copied)


def behind_a_transaction(copied: float) -> PartitionLife:
    life = in_time().run(300, 100, 0)
    life.hidden = life.end
    return life.run(60, 100, copied)


def judged(case: Case) -> LaneJudgement:
    life = case.live()
    return judge_lane(life.history, case.facts, life.now + case.later)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_history_has_a_state(case: Case) -> None:
    found = judged(case)
    assert found.state == case.state, found


def test_the_table_is_whole() -> None:
    assert len(CASES) >= 60
    assert {case.state for case in CASES} == {*MovementState, None}


def test_false_reading_738_a_dip_in_each_window_is_not_ok_with_200000_behind() -> None:
    life = sawtooth()
    newest = life.history.newest
    assert newest is not None
    assert newest.waiting > 150_000
    assert judge_lane(life.history, COPIES, life.now).state is S.WARN


def test_false_reading_223_a_tiny_lag_is_no_warning() -> None:
    life = PartitionLife(2)
    for _ in range(30):
        life.run(5, 100, 100)
        assert judge_lane(life.history, COPIES, life.now).state is S.OK


def test_false_reading_123_a_quiet_topic_is_not_stopped() -> None:
    life = in_time()
    for hours in range(48):
        assert judge_lane(life.history, COPIES, life.now + 3_600 * hours).state is S.OK


def test_false_reading_128_the_window_is_real_time_though_records_are_rare() -> None:
    life = in_time()
    for _ in range(10):
        life.run(1_200).run(5, 0.3, 0)
        assert judge_lane(life.history, COPIES, life.now).state is S.OK, "the record has just arrived"
        life.run(5, 0)


def test_false_reading_303_reports_that_come_quicker_than_news_of_the_end_keep_their_window() -> None:
    history, now = NO_HISTORY, 0.0
    for number in range(600):
        now = number / 10
        end = 1_000_000 - 100 * (number % 10 == 0) + number * 20
        history = history.after(LaneSample(now, 1_000 + number * 10, end, end, 900_000))
    assert history.waypoints[-1].at - history.waypoints[0].at > 55
    assert judge_lane(history, COPIES, now).state is S.WARN
    ahead = NO_HISTORY.after(LaneSample(0.0, 120, 100, 100, 0))
    assert judge_lane(ahead, COPIES, 1.0).state is S.OK, "stale end offset: a lag is never negative"


def test_false_reading_287_the_lag_does_not_freeze_when_reports_stop() -> None:
    life = late(20, 90)
    assert judge_lane(life.history, COPIES, life.now + 60).state is S.STOP


def test_since_when_it_is_so_is_said_however_long_that_is() -> None:
    life = in_time()
    began = life.now
    for hours in range(3):
        life.run(3_600, 100, 0)
        found = judge_lane(life.history, COPIES, life.now)
        assert found.state is S.STALL
        assert found.since is not None
        assert began <= found.since <= began + 10, hours


def test_a_transaction_is_waited_for_since_the_position_stays() -> None:
    life = hidden(600)
    found = judge_lane(life.history, COPIES, life.now)
    assert found.since is not None
    assert life.now - 605 < found.since <= life.now - 590
    assert "hides 60000 records" in found.reason


def test_a_rewind_names_what_is_written_once_more() -> None:
    life = in_time()
    reached = life.checkpoint
    life.rewind(500)
    found = judge_lane(life.history, COPIES, life.now)
    assert f"{reached - 500} to {reached - 1} " in found.reason
    assert found.since == life.now


def test_what_is_remembered_is_bounded() -> None:
    life = late(600, 50)
    assert len(life.history.waypoints) == 24
    assert len(life.run(600, 0, 1_000).run(600, 100).history.waypoints) <= 4
    assert len(late(60).run(600, 100, 0, every=0.5).history.waypoints) == 24


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_two_reports_at_one_time_show_no_rate(seconds: float) -> None:
    """The clock of a machine may be coarse, and reports of two workers may overtake each other."""
    first = LaneSample(10.0, 0, 100, 100, 60_000)
    history = NO_HISTORY.after(first).after(first._replace(at=10.0 + seconds, checkpoint=50))
    assert judge_lane(history, COPIES, 11.0).state is S.WARN
