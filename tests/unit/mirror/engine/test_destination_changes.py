"""Test destinations that reject or lose records, move leaders or respond late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pytest

from mirror.model.datastreams.lanes import LaneStopped
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Guarantee, OnLoss, OnRejection
from mirror.replication.engine import BatchEngine
from tests.fakes.broker.batches import COMMIT, Content, build, marker
from tests.fakes.broker.faults import Code, Cut, Delay, Drop, Gate, HandledRequest, Hold, Run, Throttle
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.transactions import LAST_EPOCH

IDLE_SECONDS = 90.0
PRODUCE, FIND_COORDINATOR, INIT, ADD, END = 0, 10, 22, 24, 26
NewFakes = Callable[..., MirroredFakes]
POLICIES = [CopyPolicy(guarantee=guarantee) for guarantee in Guarantee]
SAFE = [policy for policy in POLICIES if policy.guarantee is not Guarantee.AT_LEAST_ONCE]


def copying(fakes: MirroredFakes, policy: CopyPolicy | None = None, partitions: int = 1) -> None:
    """Start lanes and run until each has copied 20 records."""
    fakes.make_topic("t", partitions)
    for number in range(partitions):
        for first in range(0, 20, 5):
            fakes.write("t", first, 5, number)
    fakes.start("t", partitions, policy=policy or CopyPolicy())
    for number in range(partitions):
        fakes.run_to("t", 20, number)


def more(fakes: MirroredFakes, count: int = 5) -> None:
    """Write `count` batches of five records and run until they are copied."""
    end = fakes.source.log("t").end
    for first in range(end, end + 5 * count, 5):
        fakes.write("t", first, 5)
    fakes.run_to("t", end + 5 * count)


def forget_producers(fakes: MirroredFakes) -> None:
    """Expire all producer ids at the destination (`producer.id.expiration.ms`)."""
    log = fakes.target.log("t")
    for producer in list(log.producers.entries):
        log.producers.forget(producer)


def number_of_batch(fakes: MirroredFakes, number: int) -> Callable[[HandledRequest], bool]:
    """Return a predicate of the Produce request with that batch of topic t, from 1 on."""
    numbers, identity = count(1), fakes.target.topics["t"].identity

    def fits(asked: HandledRequest) -> bool:
        (topic,) = asked.message.topic_data
        return (topic.name == "t" or topic.topic_id == identity) and next(numbers) == number

    return fits


@pytest.mark.parametrize("policy", POLICIES)
def test_a_leader_that_moves_is_followed(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    for leader in (2, 1, 2):
        fakes.target.move_leader("t", 0, leader)
        more(fakes)
    fakes.check("t")


@pytest.mark.parametrize("policy", SAFE)
@pytest.mark.parametrize("fault", [Drop(), Drop(applied=True), Cut(9), Delay(2.0), Delay(25.0, applied=True)])
def test_a_batch_whose_answer_is_lost_is_stored_once(
    fakes: MirroredFakes, policy: CopyPolicy, fault: Drop | Cut | Delay
) -> None:
    copying(fakes, policy)
    fakes.target.faults.plant(PRODUCE, fault, times=3)
    more(fakes, 8)
    assert fakes.target.faults.taken
    fakes.check("t")


def test_a_checkpoint_while_an_owner_is_noted_does_not_hide_that_it_writes(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    fakes.write("t", 0, 5)

    def of_progress(content: bytes) -> Callable[[HandledRequest], bool]:
        return lambda asked: _holds(asked, b"g-t/t/0") and _holds(asked, content)

    fakes.target.faults.plant(PRODUCE, Delay(2.0, applied=True), fits=of_progress(b'"clean":false'))
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=of_progress(b'"next_offset":5'))
    fakes.start("t")
    fakes.run_until(lambda: len(fakes.copied("t")) == 5, "all records are copied")
    assert fakes.target.faults.taken
    fakes.restart("t")
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 5, "all records are found or copied")
    assert fakes.numbers("t") == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("policy", SAFE)
@pytest.mark.parametrize("code", [3, 5, 6, 7, 13, 19, 20, 56, 75, 14])
@pytest.mark.parametrize("applied", [False, True])
def test_a_refusal_that_passes_loses_and_doubles_nothing(
    fakes: MirroredFakes, policy: CopyPolicy, code: int, applied: bool
) -> None:
    copying(fakes, policy)
    fakes.target.faults.plant(PRODUCE, Code(code, "t", applied=applied), times=2)
    more(fakes, 8)
    fakes.check("t")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_destination_that_throttles_is_left_alone(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    fakes.target.faults.plant(PRODUCE, Throttle(3_000), times=4)
    more(fakes)
    fakes.check("t")


@pytest.mark.parametrize("policy", SAFE)
def test_an_engine_that_is_killed_leaves_neither_gap_nor_double(
    fakes: MirroredFakes, policy: CopyPolicy
) -> None:
    copying(fakes, policy)
    for _ in range(4):
        end = fakes.source.log("t").end
        gate = Gate()
        fakes.target.faults.plant(PRODUCE, Hold(gate, applied=True), times=2)
        for first in range(end, end + 20, 5):
            fakes.write("t", first, 5)
        fakes.run(0.4)
        fakes.crash()
        gate.open()
        fakes.target.faults.clear()
        fakes.new_engine()
        fakes.start("t", policy=policy)
        fakes.run_to("t", end + 20)
    fakes.check_contents("t")


def test_a_clean_stop_needs_no_comparison_and_no_fence(fakes: MirroredFakes) -> None:
    fakes.make_topic("t")
    for first in (0, 10, 20):
        fakes.write("t", first, 10)
        fakes.start("t")
        fakes.run_to("t", first + 10)
        lane = fakes.lane("t")
        assert len(lane.progress.offset_map) == 1
        assert fakes.stop()[-1] == LaneStopped(lane.key, first + 10)
        fakes.new_engine()
    assert fakes.numbers("t") == list(range(30))
    assert not [asked for asked in fakes.target.server.requests if asked.api == END]


@pytest.mark.parametrize("policy", POLICIES)
def test_whoever_is_fenced_stops_for_good(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    (name,) = [one for one in fakes.target.coordinator.known if one.startswith("headrace-")]
    fakes.target.coordinator.fence(name)
    entry = fakes.target.coordinator.known[name]
    error = fakes.target.coordinator.add(name, entry.producer, entry.epoch, [("t", 0)])
    assert not error
    fakes.target.coordinator.end(name, entry.producer, entry.epoch, commit=False, bumps=False)
    fakes.write("t", 20, 5)
    fakes.run_until_paused("t")
    pause = fakes.lane("t").pause
    assert pause is not None
    assert "run only one service" in pause.reason
    assert fakes.numbers("t") == list(range(20))
    fakes.run(60)
    assert fakes.numbers("t") == list(range(20))


@pytest.mark.parametrize("policy", SAFE)
def test_a_producer_id_that_the_broker_has_forgotten_loses_nothing(
    fakes: MirroredFakes, policy: CopyPolicy
) -> None:
    copying(fakes, policy)
    forget_producers(fakes)
    more(fakes)
    fakes.check_contents("t")


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", [Code(19), Drop(applied=True)])
@pytest.mark.parametrize("failing", [1, 2])
def test_the_batches_after_a_long_idle_time_keep_their_order(
    new_fakes: NewFakes, policy: CopyPolicy, fault: Code | Drop, level: int, failing: int
) -> None:
    fakes = new_fakes(transaction_level=level, options={"merge_small_batches": False})
    copying(fakes, policy)
    fakes.run(IDLE_SECONDS)
    forget_producers(fakes)
    fakes.target.faults.plant(PRODUCE, fault, fits=number_of_batch(fakes, failing))
    more(fakes, 8)
    assert fakes.target.faults.is_spent
    fakes.check_contents("t")


@pytest.mark.parametrize("code", [29, 87, 32, 44])
def test_a_partition_that_is_refused_pauses_alone_and_goes_on_by_itself(
    fakes: MirroredFakes, code: int
) -> None:
    copying(fakes, partitions=2)
    fakes.target.faults.plant(PRODUCE, Code(code, "t", 0), times=None)
    for number in (0, 1):
        fakes.write("t", 20, 5, number)
    fakes.run_until_paused("t")
    fakes.run_to("t", 25, 1)
    assert fakes.numbers("t") == list(range(20))
    fakes.target.faults.clear()
    fakes.run_to("t", 25)
    fakes.check("t", 2)


def test_a_record_that_is_too_large_pauses_its_lane_behind_what_fits(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.target.topics["t"].own["max.message.bytes"] = "400"
    sent = fakes.records(20, 10)
    sent[5] = (fakes.clock.now_ms(), b"k", b"x" * 600, [])
    fakes.source.write("t", sent)
    assert "offset 25" in fakes.run_until_paused("t")
    fakes.run_until(lambda: fakes.lane("t").checkpoint == 25, "all records before it are copied")
    assert fakes.numbers("t") == list(range(25))
    del fakes.target.topics["t"].own["max.message.bytes"]
    fakes.run_to("t", 30)
    fakes.check("t")


def test_a_batch_that_is_too_large_is_split(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.target.topics["t"].own["max.message.bytes"] = "400"
    fakes.write("t", 20, 60)
    fakes.run_to("t", 80)
    fakes.check("t")


@pytest.mark.parametrize("policy", SAFE)
def test_a_re_created_destination_halts_its_lane(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    fakes.target.recreate_topic("t")
    fakes.write("t", 20, 5)
    assert "recreated" in fakes.run_until_paused("t")
    assert fakes.numbers("t") == []


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_re_created_destination_is_written_to_where_that_is_wanted(
    fakes: MirroredFakes, is_stopped: bool
) -> None:
    policy = CopyPolicy(on_loss=OnLoss.CONTINUE)
    copying(fakes, policy)
    if is_stopped:
        fakes.stop()
    fakes.target.recreate_topic("t")
    fakes.write("t", 20, 5)
    if is_stopped:
        fakes.new_engine()
        fakes.start("t", policy=policy)
    fakes.run_to("t", 25)
    assert fakes.numbers("t") == list(range(20, 25))
    lane = fakes.lane("t")
    assert "recreated" in lane.progress.gaps[0]
    assert lane.progress.ledger.is_balanced
    there = [(one.offset, "exact") for one in fakes.copied("t")]
    assert [lane.progress.offset_map.forward(offset) for offset in range(20, 25)] == there


@pytest.mark.parametrize("policy", POLICIES)
def test_no_batch_overtakes_one_that_a_re_created_destination_refuses(
    fakes: MirroredFakes, policy: CopyPolicy
) -> None:
    """The new log knows no producer, so it accepts any sequence number in the first batch."""
    copying(fakes, replace(policy, on_loss=OnLoss.CONTINUE, path=CopyPath.PASSTHROUGH))
    fakes.run(1.0)
    fakes.target.faults.plant(PRODUCE, Code(19), fits=lambda _asked: bool(fakes.lane("t").progress.gaps))
    fakes.target.recreate_topic("t")
    more(fakes, 4)
    assert fakes.target.faults.taken
    assert fakes.numbers("t") == list(range(20, 40))


@pytest.mark.parametrize("deleted", [0, 5])
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_an_engine_that_is_killed_behind_a_re_creation_repeats_nothing(
    fakes: MirroredFakes, guarantee: Guarantee, deleted: int
) -> None:
    """The stored progress is of the former topic; `deleted` records of the new one have expired since."""
    policy = CopyPolicy(guarantee=guarantee, on_loss=OnLoss.CONTINUE)
    copying(fakes, policy)
    fakes.run(1.0)
    fakes.target.recreate_topic("t")
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=_is_progress)
    fakes.write("t", 20, 5)
    fakes.write("t", 25, 5)
    is_stored = guarantee is Guarantee.EFFECTIVELY_ONCE
    fakes.run_until(lambda: fakes.target.log("t").end >= (10 if is_stored else 0), "the records are written")
    fakes.target.log("t").delete_before(deleted)
    fakes.target.faults.clear()
    fakes.restart("t", policy=policy)
    fakes.run_to("t", 30)
    expired = max(deleted - 1, 0) if is_stored else 0  # the first offset is the marker of the fence
    assert fakes.numbers("t") == list(range(20 + expired, 30))


@pytest.mark.parametrize("wakes_first", [False, True])
def test_an_owner_that_wakes_behind_a_re_creation_writes_nothing_beside_the_next_one(
    fakes: MirroredFakes, wakes_first: bool
) -> None:
    """The marker that fenced it is lost with the former topic."""
    policy = CopyPolicy(on_loss=OnLoss.CONTINUE)
    copying(fakes, policy)
    frozen = fakes.engine
    fakes.write("t", 20, 5)  # it has not read them
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.run_to("t", 25)
    fakes.target.recreate_topic("t")
    fakes.run(5.0)
    engines = [frozen, fakes.engine] if wakes_first else [fakes.engine, frozen]
    fakes.write("t", 25, 5)
    for engine in engines:
        _step([engine])
    fakes.run_to("t", 30)
    assert fakes.numbers("t") == list(range(25, 30))


@pytest.mark.parametrize("guarantee", Guarantee)
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_destination_that_loses_what_it_had_acknowledged_halts_its_lane_until_that_is_accepted(
    fakes: MirroredFakes, guarantee: Guarantee, is_killed: bool
) -> None:
    policy = CopyPolicy(guarantee, on_loss=OnLoss.HALT)
    copying(fakes, policy)
    fakes.target.elect_uncleanly("t", 0, 2, 10)
    fakes.write("t", 20, 5)
    assert "the destination lost" in fakes.run_until_paused("t")
    fakes.run(5.0)
    fakes.write("t", 25, 5)
    if is_killed:
        fakes.restart("t", policy=policy)
    fakes.run(60.0)
    assert 25 not in fakes.numbers("t")
    assert "the destination lost" in str(fakes.lane("t").pause)
    fakes.restart("t", policy=CopyPolicy(guarantee, on_loss=OnLoss.CONTINUE))
    fakes.run_to("t", 30)
    assert fakes.numbers("t")[-10:] == list(range(20, 30))
    assert fakes.lane("t").progress.gaps


def test_a_loss_halts_a_lane_that_has_stored_as_many_losses_as_it_keeps(fakes: MirroredFakes) -> None:
    copying(fakes, CopyPolicy(on_loss=OnLoss.HALT))
    fakes.lane("t").progress.gaps += [f"loss {number}" for number in range(20)]
    fakes.target.elect_uncleanly("t", 0, 2, 10)
    fakes.write("t", 20, 5)
    assert "the destination lost" in fakes.run_until_paused("t")


def test_a_loss_during_a_checkpoint_leaves_the_stored_map_equal(fakes: MirroredFakes) -> None:
    def transactions(first: int, count: int) -> None:
        for number in range(first, first + count):
            fakes.source.write_in_transaction("t", fakes.records(number, 1), commit=True)

    fakes.make_topic("t")
    transactions(0, 600)
    policy = CopyPolicy(on_loss=OnLoss.CONTINUE)
    fakes.start("t", policy=policy)
    fakes.run_until(lambda: len(fakes.lane("t").progress.offset_map) == 600, "each record is a run")
    fakes.run(30.0)
    fakes.target.faults.plant(PRODUCE, Delay(3.5, applied=True), fits=lambda asked: _holds(asked, b"g-t/t/0"))
    transactions(600, 1)
    fakes.run_until(lambda: fakes.target.faults.taken, "a checkpoint is being written")
    fakes.target.elect_uncleanly("t", 0, 2, fakes.target.log("t").end - 400)
    transactions(601, 1)
    fakes.run_until(lambda: fakes.lane("t").progress.gaps, "the loss is recorded")
    fakes.run(20.0)
    transactions(602, 60)
    fakes.run(40.0)
    before = list(fakes.lane("t").progress.offset_map)
    fakes.restart("t", policy=policy)
    fakes.run(5.0)
    assert list(fakes.lane("t").progress.offset_map) == before


@pytest.mark.parametrize("on_loss", OnLoss)
@pytest.mark.parametrize("is_marker", [True, False])
@pytest.mark.parametrize("guarantee", [Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE])
def test_what_takes_the_offset_of_a_lost_record_does_not_hide_its_loss(
    fakes: MirroredFakes, guarantee: Guarantee, is_marker: bool, on_loss: OnLoss
) -> None:
    """A marker, or a record of an aborted transaction."""
    policy = CopyPolicy(guarantee=guarantee, on_loss=on_loss)
    copying(fakes, policy)
    fakes.write("t", 20, 1)
    fakes.run_to("t", 21)
    fakes.crash()
    offset = fakes.lane("t").progress.offset_map.forward(20).offset
    fakes.target.elect_uncleanly("t", 0, 2, offset)
    if is_marker:
        fakes.target.append("t", marker(1, 0, COMMIT, fakes.clock.now_ms()))
    else:
        fakes.target.write_in_transaction("t", fakes.records(90, 1), commit=False)
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.write("t", 21, 5)
    if on_loss is OnLoss.HALT:
        assert f"lost offsets {offset} to" in fakes.run_until_paused("t")
        return
    fakes.run_to("t", 26)
    assert fakes.numbers("t") == [*range(20), *range(21, 26)]
    assert len(fakes.lane("t").progress.gaps) == 1
    assert fakes.lane("t").progress.offset_map.forward(20) == (fakes.copied("t")[20].offset, "next")


@pytest.mark.parametrize(
    ("is_former_owner", "is_killed"), [(True, False), (True, True), (False, True)], ids=str
)
def test_records_of_another_writer_at_the_offsets_of_lost_records_do_not_hide_the_loss(
    fakes: MirroredFakes, is_former_owner: bool, is_killed: bool
) -> None:
    """The election also loses the marker that fenced the former owner, so the broker accepts its batches."""
    policy = CopyPolicy(on_loss=OnLoss.CONTINUE)
    copying(fakes, policy)
    former, end = fakes.lane("t").progress.owner, fakes.target.log("t").end
    assert former is not None
    fakes.restart("t", policy=policy)
    more(fakes, 1)
    if is_killed:
        fakes.crash()
    fakes.target.elect_uncleanly("t", 0, 2, end)
    foreign: list[Content] = [(fakes.clock.now_ms(), b"key", b"%d" % number, []) for number in range(90, 99)]
    writer = (*former, 20) if is_former_owner else (999, 0, 0)
    fakes.target.append("t", build(foreign, producer=writer))
    if is_killed:
        fakes.new_engine()
        fakes.start("t", policy=policy)
    fakes.write("t", 25, 5)
    fakes.run_to("t", 30)
    lane = fakes.lane("t")
    assert fakes.numbers("t") == [*range(20), *range(90, 99), *range(25, 30)]
    assert len(lane.progress.gaps) == 1
    precisions = [lane.progress.offset_map.forward(offset).precision for offset in range(19, 26)]
    assert precisions == ["exact", *["next"] * 5, "exact"]


def test_a_lane_whose_guarantee_changes_sees_no_loss_where_there_is_none(fakes: MirroredFakes) -> None:
    copying(fakes)
    for guarantee in (*Guarantee, *reversed(list(Guarantee)), Guarantee.EFFECTIVELY_ONCE):
        fakes.restart("t", policy=CopyPolicy(guarantee))
        more(fakes, 2)
        fakes.restart("t", policy=CopyPolicy(guarantee))
        more(fakes, 2)
        assert not fakes.lane("t").progress.gaps
        assert fakes.lane("t").progress.ledger.is_balanced


@pytest.mark.parametrize("level", [0, 2])
def test_the_commit_of_a_lost_record_does_not_hide_its_loss(new_fakes: NewFakes, level: int) -> None:
    fakes = new_fakes(transaction_level=level)
    copying(fakes, CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE, on_loss=OnLoss.CONTINUE))
    log = fakes.target.log("t")
    fakes.target.faults.plant(END, Run(lambda: fakes.target.elect_uncleanly("t", 0, 2, log.end - 1)))
    fakes.write("t", 20, 1)
    fakes.run_to("t", 21)
    fakes.write("t", 21, 5)
    fakes.run_to("t", 26)
    assert fakes.numbers("t") == [*range(20), *range(21, 26)]
    assert len(fakes.lane("t").progress.gaps) == 1


@pytest.mark.parametrize("level", [0, 2])
def test_a_transaction_without_a_batch_is_no_loss(new_fakes: NewFakes, level: int) -> None:
    fakes = new_fakes(transaction_level=level)
    copying(fakes, CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE))
    fakes.source.write_in_transaction("t", fakes.records(90, 1), commit=False)
    fakes.run_to("t", 22)
    more(fakes)
    fakes.check("t")
    assert not fakes.lane("t").progress.gaps
    assert not fakes.lane("t").observed.foreign_records
    assert not fakes.pauses(fakes.lane("t").key)


@pytest.mark.parametrize("guarantee", [Guarantee.AT_LEAST_ONCE, Guarantee.EFFECTIVELY_ONCE])
def test_what_an_owner_has_written_behind_a_loss_and_not_stored_hides_no_loss_and_is_repeated_at_most_once(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    policy = CopyPolicy(guarantee, path=CopyPath.PASSTHROUGH, on_loss=OnLoss.CONTINUE)
    copying(fakes, policy)
    fakes.run(1.0)
    fakes.crash()
    fakes.target.elect_uncleanly("t", 0, 2, 10)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=_is_progress)
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.write("t", 20, 5)
    fakes.run_until(lambda: len(fakes.copied("t")) == 15, "the records are written")
    fakes.target.faults.clear()
    fakes.restart("t", policy=policy)
    fakes.write("t", 25, 5)
    fakes.run_to("t", 30)
    repeated = range(20, 25) if guarantee is Guarantee.AT_LEAST_ONCE else ()
    assert fakes.numbers("t") == [*range(10), *range(20, 25), *repeated, *range(25, 30)]
    assert fakes.lane("t").progress.gaps
    assert fakes.lane("t").progress.offset_map.forward(12).precision == "next"


@pytest.mark.parametrize("api", [FIND_COORDINATOR, INIT])
@pytest.mark.parametrize("code", [14, 15, 16])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_coordinator_that_loads_or_moves_is_waited_for(
    fakes: MirroredFakes, policy: CopyPolicy, api: int, code: int
) -> None:
    fakes.target.faults.plant(api, Code(code), times=5)
    copying(fakes, policy)
    fakes.check("t")


@pytest.mark.parametrize("level", [0, 2])
@pytest.mark.parametrize("api", [INIT, ADD, END, PRODUCE])
@pytest.mark.parametrize("fault", [Code(51), Drop(), Drop(applied=True), Code(16)])
def test_transactions_survive_what_befalls_their_requests(
    new_fakes: NewFakes, level: int, api: int, fault: Code | Drop
) -> None:
    fakes = new_fakes(transaction_level=level)
    copying(fakes, CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE))
    fakes.target.faults.plant(api, fault, times=2)
    more(fakes)
    more(fakes)
    fakes.check_contents("t")


@pytest.mark.parametrize("level", [0, 2])
def test_a_commit_whose_markers_take_their_time_is_waited_for(new_fakes: NewFakes, level: int) -> None:
    fakes = new_fakes(transaction_level=level)
    fakes.target.coordinator.marker_seconds = 0.2
    copying(fakes, CopyPolicy(guarantee=Guarantee.EXACTLY_ONCE))
    for _ in range(3):
        more(fakes)
    fakes.run(1)
    fakes.check_contents("t")


@pytest.mark.parametrize("policy", SAFE)
def test_a_destination_that_is_down_is_waited_for(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    for broker in (1, 2):
        fakes.target.take_down(broker)
    fakes.write("t", 20, 5)
    fakes.run(40)
    for broker in (1, 2):
        fakes.target.bring_up(broker)
    fakes.run_to("t", 25)
    fakes.check_contents("t")


@pytest.mark.parametrize("policy", SAFE)
def test_a_destination_that_freezes_is_waited_for(fakes: MirroredFakes, policy: CopyPolicy) -> None:
    copying(fakes, policy)
    for broker in (1, 2):
        fakes.target.freeze(broker)
    fakes.write("t", 20, 5)
    fakes.run(100)
    for broker in (1, 2):
        fakes.target.thaw(broker)
    fakes.run_to("t", 25)
    fakes.check_contents("t")


@pytest.mark.deep
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seconds", [8.0, 25.0, 50.0])
def test_a_lane_goes_on_that_gave_its_memory_back_while_it_waited_for_its_id(
    fakes: MirroredFakes, policy: CopyPolicy, seconds: float
) -> None:
    fakes.make_topic("t", 4)
    fakes.start("t", 4, policy=policy)
    fakes.run(2.0)
    fakes.target.faults.plant(INIT, Delay(seconds), times=4)
    for number in range(4):
        fakes.write("t", 0, 5, number)
    fakes.run(2 * seconds)
    for number in range(4):
        fakes.run_to("t", 5, number)
    fakes.check("t", 4)


@pytest.mark.parametrize("policy", SAFE)
@pytest.mark.parametrize("level", [0, 2])
def test_what_a_killed_engine_has_stored_is_found_also_before_every_replica_has_it(
    new_fakes: NewFakes, policy: CopyPolicy, level: int
) -> None:
    fakes = new_fakes(transaction_level=level)
    copying(fakes, policy)
    log = fakes.target.log("t")
    log.is_replicated = False
    fakes.write("t", 20, 5)
    fakes.run(1.0)
    fakes.crash()
    fakes.target.later(6.0, log.replicate)
    fakes.new_engine()
    fakes.start("t", policy=policy)
    fakes.run_to("t", 25)
    fakes.run(2.0)
    fakes.check_contents("t")


@pytest.mark.parametrize("owners", [1, 2])
@pytest.mark.parametrize("at_source", [(), (0,), (1, 2)])
@pytest.mark.parametrize("removed", [(0,), (0, 1), (1,), (0, 2), (1, 2), (0, 1, 2)])
def test_copies_after_the_checkpoint_that_the_destination_compacts_are_not_written_again(
    fakes: MirroredFakes, removed: Sequence[int], at_source: Sequence[int], owners: int
) -> None:
    """The next owner finds the later copies only. With two owners, the marker of the second is between."""
    copying(fakes)
    fakes.run(5.0)
    fakes.target.faults.plant(PRODUCE, Drop(), times=None, fits=_is_progress)
    for first in (20, 25, 30, 35):
        if owners == 2 and first == 30:
            fakes.restart("t")
        fakes.write("t", first, 5)
        fakes.run_to("t", first + 5)
    log = fakes.target.log("t")
    copies = [batch for batch in log.batches if not batch.is_control][-4:]
    for number in removed:
        log.compact(copies[number].base, None)
    for number in at_source:
        fakes.source.log("t").compact(20 + 5 * number, None)
    fakes.crash()
    fakes.target.faults.clear()
    fakes.new_engine()
    fakes.start("t")
    fakes.write("t", 40, 5)
    fakes.run_until(lambda: fakes.numbers("t")[-1:] == [44], "the next records are copied")
    gone = {20 + 5 * number + step for number in removed for step in range(5)}
    assert fakes.numbers("t") == [number for number in range(45) if number not in gone]
    offset_map = fakes.lane("t").progress.offset_map
    for number in {0, 1, 2, 3} - set(at_source):
        places = [offset_map.forward(20 + 5 * number + step).offset for step in range(5)]
        assert places == [copies[number].base + step for step in range(5)]


@pytest.mark.parametrize("epochs_left", [None, 2])
@pytest.mark.parametrize("level", [0, 2])
def test_an_owner_that_takes_the_lane_behind_the_fence_of_another_is_fenced_too(
    new_fakes: NewFakes, level: int, epochs_left: int | None
) -> None:
    """The first has written its marker but not acquired its id again; the second stores no progress.

    With two epochs left, the second one writes under another producer id.
    """
    fakes = new_fakes(transaction_level=level)
    copying(fakes)
    fakes.crash()
    if epochs_left is not None:
        for entry in fakes.target.coordinator.known.values():
            entry.epoch = LAST_EPOCH - epochs_left
    faults, taking, storing, following = fakes.target.faults, Gate(), Gate(), Gate()
    faults.plant(END, Run(lambda: faults.plant(INIT, Hold(taking))))
    first = fakes.new_engine()
    fakes.start("t")
    fakes.write("t", 20, 5)
    fakes.run_until(lambda: faults.taken == 2, "the first one acquires its id again")
    second = fakes.new_engine()
    fakes.start("t")
    faults.plant(PRODUCE, Hold(storing), fits=lambda asked: not _is_progress(asked))
    faults.plant(PRODUCE, Drop(), times=None, fits=_is_progress)
    fakes.run_until(lambda: faults.is_spent, "the second one sends a batch")
    faults.plant(PRODUCE, Hold(following), fits=lambda asked: not _is_progress(asked))
    taking.open()
    _step([first])
    storing.open()
    _step([second])
    following.open()
    faults.clear()
    _step([first, second])
    assert fakes.numbers("t") == list(range(25))


def _step(engines: Sequence[BatchEngine]) -> None:
    for _ in range(40):
        for engine in engines:
            engine.step(0.05)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_batch_that_is_always_called_damaged_is_handled_as_a_refused_one(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    """The batches before it may be accepted every time the transaction is sent again."""
    policy = CopyPolicy(guarantee, path=CopyPath.PASSTHROUGH, on_rejection=OnRejection.SKIP)
    copying(fakes, policy)
    corrupt = Code(2, topic="t")
    fakes.target.faults.plant(PRODUCE, corrupt, times=None, fits=lambda asked: _holds(asked, b"key-27"))
    for first in (20, 25, 30):
        now_ms = fakes.clock.now_ms()
        fakes.source.write("t", [(now_ms, b"key-%d" % n, b"%d" % n, []) for n in range(first, first + 5)])
    fakes.run_to("t", 35)
    assert fakes.numbers("t") == [n for n in range(35) if n != 27]


def test_a_batch_that_is_always_called_damaged_pauses_its_lane(fakes: MirroredFakes) -> None:
    copying(fakes)
    fakes.target.faults.plant(PRODUCE, Code(2, topic="t"), times=None)
    fakes.write("t", 20, 5)
    assert "CORRUPT_MESSAGE" in fakes.run_until_paused("t")
    fakes.target.faults.clear()
    fakes.run_to("t", 25)
    fakes.check("t")


def _is_progress(asked: HandledRequest) -> bool:
    return _holds(asked, b"g-t/t/")


def _holds(asked: HandledRequest, content: bytes) -> bool:
    return any(
        content in bytes(part.records) for topic in asked.message.topic_data for part in topic.partition_data
    )
