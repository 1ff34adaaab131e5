"""Test changes of the source during copying: leaders, truncation, elections, topics."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.lanes import LanePaused, LaneResumed
from mirror.model.datastreams.policy import CopyPolicy, Guarantee, OnLoss
from tests.fakes.broker.faults import Code, Cut, Delay, Drop, Gate, Hold, Throttle
from tests.fakes.broker.mirrored import MirroredFakes

FETCH = 1
LIST_OFFSETS = 2
METADATA = 3
INIT = 22
NewFakes = Callable[..., MirroredFakes]
CONTINUE = CopyPolicy(on_loss=OnLoss.CONTINUE)


def copying(fakes: MirroredFakes, records: int = 20, policy: CopyPolicy | None = None) -> None:
    """Start a lane and run until it has copied this number of records."""
    fakes.make_topic("t")
    for first in range(0, records, 5):
        fakes.write("t", first, 5)
    fakes.start("t", policy=policy or CopyPolicy())
    fakes.run_to("t", records)


def test_a_leader_that_moves_is_followed(fakes: MirroredFakes) -> None:
    copying(fakes)
    for leader in (2, 1, 2):
        fakes.source.move_leader("t", 0, leader)
        fakes.write("t", fakes.source.log("t").end, 5)
    fakes.run_to("t", 35)
    fakes.check("t")
    assert not fakes.pauses(fakes.lane("t").key)


def test_a_broker_that_dies_hands_its_partitions_over(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.take_down(1)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.source.bring_up(1)
    fakes.source.take_down(2)
    fakes.write("t", 25, 5)
    fakes.run_to("t", 30)
    fakes.check("t")


def test_a_partition_without_a_leader_is_waited_for(fakes: MirroredFakes) -> None:
    copying(fakes)
    for broker in (1, 2):
        fakes.source.take_down(broker)
    fakes.run(20)
    for broker in (1, 2):
        fakes.source.bring_up(broker)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.check("t")


def test_a_frozen_broker_is_given_up_once_its_time_is_over(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.freeze(1)
    fakes.source.move_leader("t", 0, 2)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.source.thaw(1)
    fakes.check("t")


@pytest.mark.parametrize("code", [6, 9, 56, 74, 75, 3, 5, 78, -1])
def test_an_error_that_passes_stops_nothing(fakes: MirroredFakes, code: int) -> None:
    copying(fakes)
    fakes.source.faults.plant(FETCH, Code(code), times=2)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    assert fakes.source.faults.is_spent
    fakes.check("t")


@pytest.mark.parametrize("fault", [Drop(), Drop(applied=True), Cut(9), Cut(60), Delay(3.0), Delay(40.0)])
def test_a_fetch_that_is_not_answered_is_asked_again(fakes: MirroredFakes, fault: Drop | Cut | Delay) -> None:
    copying(fakes)
    fakes.source.faults.plant(FETCH, fault, times=2)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.check("t")


def test_damaged_responses_pause_a_lane_only_in_a_row(fakes: MirroredFakes) -> None:
    copying(fakes)
    for first in range(20, 40, 5):
        fakes.source.faults.plant(FETCH, Code(2, topic="t"))
        fakes.write("t", first, 5)
        fakes.run_to("t", first + 5)
        assert fakes.source.faults.is_spent
    assert not fakes.pauses(fakes.lane("t").key)
    fakes.check("t")


def test_a_throttled_reader_keeps_away_as_long_as_it_is_asked_to(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.faults.plant(FETCH, Throttle(8_000))
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.write("t", 25, 5)
    fetches = [asked for asked in fakes.source.server.requests if asked.api == FETCH]
    fakes.run(7)
    assert [asked for asked in fakes.source.server.requests if asked.api == FETCH] == fetches
    fakes.run_to("t", 30)
    fakes.check("t")


def test_a_session_that_the_broker_has_forgotten_is_begun_again(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.brokers[1].sessions.forget_all()
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.check("t")


def test_a_truncated_source_halts_its_lane_and_no_other(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.make_topic("other")
    fakes.write("other", 0, 5)
    fakes.source.freeze(1)
    fakes.run(1)
    fakes.write("t", 20, 10)
    fakes.source.log("t").delete_before(25)
    fakes.source.thaw(1)
    fakes.source.server.drop_connections(1)
    fakes.start("other")
    assert "offsets 20 to 24" in fakes.run_until_paused("t")
    fakes.run_to("other", 5)
    assert fakes.numbers("t") == list(range(20))


def test_a_truncated_source_leaves_a_gap_where_that_is_wanted(fakes: MirroredFakes) -> None:
    copying(fakes, policy=CONTINUE)
    fakes.crash()
    fakes.write("t", 20, 5)
    fakes.write("t", 25, 5)
    fakes.source.log("t").delete_before(25)
    fakes.new_engine()
    fakes.start("t", policy=CONTINUE)
    fakes.run_to("t", 30)
    assert fakes.numbers("t") == [*range(20), *range(25, 30)]
    lane = fakes.lane("t")
    assert lane.progress.ledger.is_balanced
    assert lane.progress.ledger.total(OffsetClass.LOST) == 5
    (gap,) = lane.progress.gaps
    assert re.search(r"\b20 to 24 of t-0\b", gap)
    copied = [(one.offset, "exact") for one in fakes.copied("t")]
    assert [lane.progress.offset_map.forward(offset) for offset in (*range(20), *range(25, 30))] == copied
    assert lane.progress.offset_map.forward(22) == (copied[20][0], "next")


def test_an_unclean_election_halts_a_lane_that_has_copied_what_was_lost(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.elect_uncleanly("t", 0, 2, 15)
    fakes.source.write("t", fakes.records(100, 10))
    assert "diverges at offset 15" in fakes.run_until_paused("t")
    assert fakes.numbers("t") == list(range(20))


def test_the_new_history_is_copied_where_that_is_wanted(fakes: MirroredFakes) -> None:
    copying(fakes, policy=CONTINUE)
    fakes.source.elect_uncleanly("t", 0, 2, 15)
    fakes.source.write("t", fakes.records(100, 10))
    fakes.run_until(lambda: fakes.lane("t").checkpoint >= 25, "the new history is copied")
    assert fakes.numbers("t") == [*range(20), *range(100, 110)]


def test_a_new_history_that_parts_again_before_it_is_read_is_copied_from_there(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    for first in range(0, 20, 5):
        fakes.write("t", first, 5)
    fakes.source.move_leader("t", 0, 2)
    fakes.write("t", 20, 10)
    fakes.start("t", policy=CONTINUE)
    fakes.run_to("t", 30)
    fakes.write("t", 30, 5)
    fakes.run_to("t", 35)
    fakes.source.elect_uncleanly("t", 0, 1, 30)
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 30, "the first new history is followed")
    fakes.source.elect_uncleanly("t", 0, 2, 15)
    fakes.source.write("t", fakes.records(100, 20))
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 35, "the second one is copied")
    assert fakes.numbers("t") == [*range(35), *range(100, 120)]


def test_a_new_history_is_copied_once_by_an_owner_that_goes_back_for_what_it_has_found(
    fakes: MirroredFakes,
) -> None:
    """The log diverges while the owner waits for its id; then it compares, and reads from its checkpoint."""
    fakes.make_topic("t")
    fakes.write("t", 0, 20)
    fakes.start("t", policy=CONTINUE)
    fakes.run_to("t", 20)
    for first in (20, 25):
        fakes.write("t", first, 5)
    fakes.run_until(lambda: fakes.target.log("t").end >= 30, "the records are written")
    assert fakes.is_unsaved(fakes.lane("t"))
    gate = Gate()
    fakes.target.faults.plant(INIT, Hold(gate))
    fakes.restart("t", policy=CONTINUE)
    fakes.run_until(lambda: fakes.target.faults.is_spent, "the lane acquires its id")
    fakes.source.elect_uncleanly("t", 0, 2, 25)
    fakes.source.write("t", fakes.records(100, 5))
    fakes.run(1.0)
    gate.open()
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 30, "the new history is copied")
    fakes.run(1.0)
    assert fakes.numbers("t") == [*range(30), *range(100, 105)]


def test_an_unclean_election_that_lost_nothing_copied_is_no_matter(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.source.log("t").is_replicated = False
    fakes.write("t", 20, 5)
    fakes.run(3)
    fakes.source.elect_uncleanly("t", 0, 2, 20)
    fakes.write("t", 100, 5)
    fakes.run_to("t", 25)
    assert fakes.numbers("t") == [*range(20), *range(100, 105)]
    fakes.check("t")


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("shorter", [True, False])
def test_a_re_created_source_halts_its_lane(fakes: MirroredFakes, shorter: bool, is_stopped: bool) -> None:
    copying(fakes)
    if is_stopped:
        fakes.stop()
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5 if shorter else 50)
    if is_stopped:
        fakes.new_engine()
        fakes.start("t")
    assert "recreated" in fakes.run_until_paused("t")
    assert fakes.numbers("t") == list(range(20))


def test_a_re_created_source_is_copied_from_its_beginning_where_that_is_wanted(
    fakes: MirroredFakes,
) -> None:
    copying(fakes, policy=CONTINUE)
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5)
    fakes.run_until(lambda: len(fakes.numbers("t")) == 25, "the new topic is copied")
    assert fakes.numbers("t") == [*range(20), *range(100, 105)]
    (place,) = fakes.engine.positions(fakes.engine.metrics())
    assert place is not None
    assert (place.checkpoint, place.life) == (5, 1), "a lower offset in a new life is no step back"
    lane = fakes.lane("t")
    assert "recreated" in lane.progress.gaps[-1]
    assert lane.progress.ledger.start == 0
    assert lane.progress.ledger.is_balanced
    there = [(one.offset, "exact") for one in fakes.copied("t")[20:]]
    assert [lane.progress.offset_map.forward(offset) for offset in range(5)] == there


def test_a_checkpoint_while_a_source_is_re_created_stores_nothing_without_a_position(
    fakes: MirroredFakes,
) -> None:
    fakes.make_topic("t")
    fakes.start("t", policy=CONTINUE)
    fakes.run(2)
    fakes.target.faults.plant(FETCH, Delay(2.0))
    fakes.source.write_in_transaction("t", fakes.records(0, 5), commit=False)
    fakes.run_until(lambda: fakes.target.faults.taken, "the lane checks whether it may store an empty result")
    fakes.source.faults.plant(LIST_OFFSETS, Delay(4.0))
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5)
    fakes.run_until(lambda: len(fakes.numbers("t")) == 5, "the new topic is copied")
    assert fakes.source.faults.is_spent
    assert not fakes.pauses(fakes.lane("t").key)


def test_a_lane_that_pauses_without_a_position_stores_none_in_a_transaction(fakes: MirroredFakes) -> None:
    policy = CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_loss=OnLoss.CONTINUE)
    copying(fakes, policy=policy)
    fakes.source.faults.plant(LIST_OFFSETS, Code(5), times=None)
    fakes.source.recreate_topic("t")
    fakes.write("t", 100, 5)
    assert "ListOffsets" in fakes.run_until_paused("t")
    fakes.run(2)
    fakes.restart("t", policy=policy)
    fakes.source.faults.clear()
    fakes.run_until(lambda: len(fakes.numbers("t")) == 25, "the new topic is copied")
    assert not any("cannot be read" in reason for reason in fakes.pauses(fakes.lane("t").key))


def test_a_deleted_source_halts_its_lane_until_it_is_there(fakes: MirroredFakes) -> None:
    copying(fakes, policy=CONTINUE)
    fakes.make_topic("other")
    fakes.start("other")
    fakes.source.delete_topic("t")
    assert "does not exist" in fakes.run_until_paused("t")
    fakes.write("other", 0, 5)
    fakes.run_to("other", 5)
    fakes.source.create_topic("t")
    fakes.write("t", 100, 5)
    fakes.run_until(lambda: len(fakes.numbers("t")) == 25, "the new topic is copied")
    key = fakes.lane("t").key
    fakes.run_until(lambda: LaneResumed(key) in fakes.events, "the lane resumes")
    assert {one.key for one in fakes.events if isinstance(one, LanePaused)} == {key}


@pytest.mark.parametrize("guarantee", list(Guarantee))
@pytest.mark.parametrize("level", [0, 2])
def test_aborted_transactions_and_markers_are_left_out(
    new_fakes: NewFakes, guarantee: Guarantee, level: int
) -> None:
    fakes = new_fakes(transaction_level=level)
    fakes.make_topic("t")
    for number, commit in enumerate((True, False, True, False, False)):
        fakes.source.write_in_transaction("t", fakes.records(10 * number, 5), commit=commit)
        fakes.write("t", 10 * number + 5, 2)
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee))
    fakes.run_to("t", fakes.source.log("t").end)
    fakes.check("t")
    assert fakes.numbers("t") == [*range(7), 15, 16, *range(20, 27), 35, 36, 45, 46]


def test_a_lane_stops_in_front_of_an_open_transaction_and_goes_on_behind_it(fakes: MirroredFakes) -> None:
    copying(fakes)
    end = fakes.source.write_in_transaction("t", fakes.records(20, 5))
    fakes.write("t", 25, 5)
    fakes.run(5)
    assert fakes.lane("t").checkpoint == 20
    end(commit=False)
    fakes.run_to("t", fakes.source.log("t").end)
    fakes.check("t")
    assert fakes.numbers("t") == [*range(20), *range(25, 30)]


def test_a_lane_gathers_no_longer_than_it_is_to(new_fakes: NewFakes) -> None:
    fakes = new_fakes(options={"gather_ms": 100})
    copying(fakes)
    fakes.run(2)
    for first in (20, 25, 30):
        fakes.write("t", first, 5)
        began = fakes.clock.monotonic()
        fakes.run_until(lambda end=first + 5: len(fakes.copied("t")) == end, "all are copied")  # type: ignore[misc]
        assert fakes.clock.monotonic() - began < 1


def test_with_a_rack_records_are_read_from_the_nearest_replica(new_fakes: NewFakes) -> None:
    fakes = new_fakes(racks=["far", "near"], rack="near")
    fakes.source.serves_from_followers = True
    copying(fakes)
    fakes.write("t", 20, 5)
    fakes.run_to("t", 25)
    fakes.check("t")
    assert any(asked.api == FETCH and asked.broker == 2 for asked in fakes.source.server.requests)
