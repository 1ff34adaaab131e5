"""Writing one partition on several connections to a distant broker, in virtual time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import cast

import pytest

from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import LaneHeldBack, QuotaOwner
from mirror.model.datastreams.policy import CopyPolicy, Guarantee
from tests.fakes.broker.faults import Code, Cut, Delay, Drop, Fault, Gate, HandledRequest, Hold, Throttle
from tests.fakes.broker.mirrored import MirroredFakes
from tests.fakes.broker.server import Peer

PRODUCE, METADATA = 0, 3
BEFORE_TOPIC_IDS = 9
ROUND_TRIP = 0.1
IN_BATCH = 50
RECORDS = 200 * IN_BATCH
OPTIONS = {
    "buffer_bytes": 400_000,
    "fetch_bytes": 40_000,
    "write_connections": 24,
    "read_connections": 0,
    "read_ahead_bytes": 48_000,
}


@pytest.fixture
def fakes() -> Iterator[MirroredFakes]:
    distant = MirroredFakes(1, options=OPTIONS)
    distant.network.round_trip = ROUND_TRIP
    distant.network.window_bytes = 400
    distant.target.pace = lambda: (ROUND_TRIP / 2, ROUND_TRIP / 2)
    yield distant
    distant.close()


def backlog(fakes: MirroredFakes, partitions: int = 1, *, codec: int = 0) -> None:
    fakes.make_topic("t", partitions, replication=1)
    for number in range(partitions):
        for first in range(0, RECORDS, IN_BATCH):
            fakes.write("t", first, IN_BATCH, number, codec=codec)


def produced(fakes: MirroredFakes) -> list[HandledRequest]:
    """Return the produce requests for records of lanes."""
    requests = [one for one in fakes.target.server.requests if one.api == PRODUCE]
    identity = fakes.target.topics["t"].identity
    topics = [(one.message.topic_data[0], one) for one in requests]
    return [one for topic, one in topics if topic.topic_id == identity or topic.name == "t"]


def connections(fakes: MirroredFakes) -> int:
    """Return the number of connections that carried records of lanes."""
    return len({one.connection for one in produced(fakes)})


def is_any_incomplete(fakes: MirroredFakes) -> bool:
    """Return whether a broker has a part of a request."""
    peers = {cast(Peer, one.connection) for one in fakes.target.server.requests}
    return any(peer.has_part and not peer.is_closed for peer in peers)


def run_until_parallel(fakes: MirroredFakes, count: int = 4) -> None:
    fakes.run_until(lambda: connections(fakes) >= count, "it writes on several connections")


def finish(fakes: MirroredFakes, partitions: int = 1) -> None:
    for number in range(partitions):
        fakes.run_to("t", RECORDS, number)
    fakes.check("t", partitions)


@pytest.mark.parametrize("guarantee", list(Guarantee))
def test_a_partition_is_written_on_several_connections(fakes: MirroredFakes, guarantee: Guarantee) -> None:
    backlog(fakes, 2)
    fakes.start("t", 2, policy=CopyPolicy(guarantee=guarantee))
    finish(fakes, 2)
    assert connections(fakes) > 4


def test_a_partition_of_a_topic_without_an_id_is_written_by_name(fakes: MirroredFakes) -> None:
    fakes.target.newest_versions[METADATA] = BEFORE_TOPIC_IDS
    fakes.make_topic("t", replication=1)
    fakes.start("t")
    fakes.run_until(lambda: fakes.lane("t").writer is not None, "the lane starts")
    del fakes.target.newest_versions[METADATA]
    for first in range(0, RECORDS, IN_BATCH):
        fakes.write("t", first, IN_BATCH)
    finish(fakes)
    assert connections(fakes) > 4
    assert not fakes.target.server.refused


def test_with_default_settings_a_partition_outgrows_the_window_of_a_connection() -> None:
    """A connection carries at most the window of a broker with default buffers in each round trip."""
    with closing(MirroredFakes(1)) as fakes:
        fakes.network.round_trip, fakes.network.window_bytes = ROUND_TRIP, 125_000
        fakes.network.room, fakes.network.later = 10_000_000, fakes.target.later
        fakes.make_topic("t", replication=1)
        key = b"k" * 250_000
        for number in range(80):
            fakes.source.write("t", [(fakes.clock.now_ms(), key, b"%d" % number, [])])
        fakes.start("t")
        fakes.run_to("t", 80)
        fakes.check_contents("t")
        assert connections(fakes) > 4


def test_nothing_is_written_side_by_side_if_no_window_limits_it(fakes: MirroredFakes) -> None:
    fakes.network.window_bytes = 0
    backlog(fakes)
    fakes.start("t")
    finish(fakes)
    assert connections(fakes) == 1


@pytest.mark.deep
def test_nothing_is_written_side_by_side_to_a_broker_nearby(fakes: MirroredFakes) -> None:
    fakes.network.round_trip = 0.0005
    backlog(fakes)
    fakes.start("t")
    finish(fakes)
    assert connections(fakes) == 1


def test_what_waits_is_merged(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    finish(fakes)
    assert len(produced(fakes)) < RECORDS / IN_BATCH / 2


def test_many_partitions_merge_less(fakes: MirroredFakes) -> None:
    """Each has few connections, and a larger batch than these carry in a round trip only takes memory."""
    backlog(fakes, 6)
    fakes.start("t", 6)
    run_until_parallel(fakes, 16)
    fakes.run(2.0)
    lanes = [fakes.lane("t", number) for number in range(6)]
    sent = [item for lane in lanes for item in lane.queue.sent if isinstance(item, OutBatch)]
    assert max(len(item.batch) for item in sent) <= 5 * fakes.network.window_bytes


def test_connections_for_all_partitions_open_together(fakes: MirroredFakes) -> None:
    backlog(fakes, 6)
    fakes.start("t", 6)
    run_until_parallel(fakes, 7)
    fakes.run(6 * ROUND_TRIP)
    assert connections(fakes) >= 16


def test_little_memory_means_smaller_batches_not_unused_connections(fakes: MirroredFakes) -> None:
    backlog(fakes, 6)
    budget = fakes.context.write_budget
    budget.limit = 20_000  # 8 windows for a partition: room for two connections, and three batches
    fakes.start("t", 6)
    run_until_parallel(fakes, 7)
    fakes.run(20 * ROUND_TRIP)
    assert budget.used <= budget.limit
    assert sum(fakes.lane("t", number).queue.in_flight for number in range(6)) >= 15


def test_batches_that_wait_leave_memory_for_those_that_are_sent(fakes: MirroredFakes) -> None:
    backlog(fakes)
    budget = fakes.context.write_budget
    budget.limit = 12_000  # less than what waits
    fakes.start("t")
    run_until_parallel(fakes)
    most = 0
    while fakes.lane("t").queue.unsent:
        assert budget.used <= budget.limit
        most = max(most, fakes.lane("t").queue.in_flight)
        fakes.run(0.1)
    assert most > 4
    finish(fakes)


def test_compressed_batches_stay_as_they_are(fakes: MirroredFakes) -> None:
    backlog(fakes, codec=1)
    fakes.start("t")
    finish(fakes)
    assert len(produced(fakes)) == RECORDS / IN_BATCH


def test_at_most_one_whole_request_of_a_partition_is_at_the_broker(fakes: MirroredFakes) -> None:
    """Otherwise one may overtake another: here every second one takes longer."""
    backlog(fakes)
    fakes.start("t")
    run_until_parallel(fakes)
    before = len(produced(fakes))
    slow = iter(range(1_000_000))
    fakes.target.pace = lambda: (0.15 * (next(slow) % 2), 0.01)
    fakes.run(2.0)
    assert len(produced(fakes)) > before
    assert not [one for one in fakes.target.server.requests if any(one.faults)]
    finish(fakes)
    log = fakes.target.log("t", 0)
    assert len(log.batches) == len(produced(fakes)), "no request was refused or repeated"


ONCE, EXACTLY = Guarantee.EFFECTIVELY_ONCE, Guarantee.EXACTLY_ONCE
FAULTS: list[tuple[Fault, Guarantee]] = [
    (Drop(applied=True), EXACTLY),
    (Cut(30), ONCE),
    (Code(45), ONCE),
]
LONG_FAULTS: list[tuple[Fault, Guarantee]] = [
    (Drop(), ONCE),
    (Drop(applied=True), ONCE),
    (Delay(3.0, applied=True), ONCE),
    (Delay(40.0), EXACTLY),
    (Hold(Gate(), applied=True), ONCE),
    (Hold(Gate()), EXACTLY),
    (Throttle(700), ONCE),
    (Code(6), ONCE),
    (Code(6), EXACTLY),
    (Code(7, applied=True), ONCE),
    (Code(2), ONCE),
]


@pytest.mark.parametrize(("fault", "guarantee"), FAULTS, ids=str)
def test_a_fault_repeats_and_loses_no_record(
    fakes: MirroredFakes, fault: Fault, guarantee: Guarantee
) -> None:
    copy_with(fakes, fault, guarantee)


@pytest.mark.deep
@pytest.mark.parametrize(("fault", "guarantee"), LONG_FAULTS, ids=str)
def test_a_fault_with_a_wait_repeats_and_loses_no_record(
    fakes: MirroredFakes, fault: Fault, guarantee: Guarantee
) -> None:
    copy_with(fakes, fault, guarantee)


def copy_with(fakes: MirroredFakes, fault: Fault, guarantee: Guarantee) -> None:
    backlog(fakes)
    fakes.start("t", policy=CopyPolicy(guarantee=guarantee))
    run_until_parallel(fakes)
    for _ in range(3):
        fakes.target.faults.plant(PRODUCE, fault)
        fakes.run(0.4)
    finish(fakes)


def test_after_a_cut_only_the_whole_request_is_in_doubt(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    run_until_parallel(fakes)
    fakes.run_until(lambda: fakes.lane("t").queue.in_flight > 3, "several are in flight")
    fakes.target.server.drop_connections(1)
    fakes.run_until(lambda: not fakes.lane("t").queue.in_flight, "all are lost")
    assert len([batch for batch in fakes.lane("t").queue.batches() if batch.maybe_stored]) == 1
    finish(fakes)


@pytest.mark.deep
def test_one_broken_connection_gives_up_those_behind_it_only(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    run_until_parallel(fakes)
    fakes.run_until(lambda: fakes.lane("t").queue.in_flight > 3, "several are in flight")
    peers = {one.connection for one in produced(fakes)}
    cast(Peer, next(iter(peers))).close()
    finish(fakes)


@pytest.mark.parametrize("guarantee", [ONCE, EXACTLY])
def test_an_engine_that_ends_between_two_requests_leaves_a_prefix(
    fakes: MirroredFakes, guarantee: Guarantee
) -> None:
    policy = CopyPolicy(guarantee=guarantee)
    backlog(fakes)
    fakes.start("t", policy=policy)
    run_until_parallel(fakes)
    for _ in range(3):
        fakes.run(0.35)
        fakes.restart("t", policy=policy)
    fakes.run_to("t", RECORDS)
    fakes.check_contents("t")


def test_a_request_that_cannot_be_completed_frees_the_memory_of_the_broker(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    run_until_parallel(fakes)
    fakes.target.faults.plant(PRODUCE, Delay(25.0))
    fakes.run(0.5)
    assert fakes.lane("t").queue.in_flight > 1
    assert is_any_incomplete(fakes)
    fakes.run(15.0)
    assert not is_any_incomplete(fakes)
    finish(fakes)


def test_a_request_that_travels_for_long_is_not_given_up(fakes: MirroredFakes) -> None:
    fakes.context.write_budget.limit = 2_000_000
    fakes.network.later = fakes.target.later
    fakes.make_topic("t", replication=1)
    key = b"k" * 150 * fakes.network.window_bytes
    for number in range(8):
        fakes.source.write("t", [(fakes.clock.now_ms(), key, b"%d" % number, [])])
    fakes.start("t")
    fakes.run_until(lambda: fakes.lane("t").queue.in_flight > 3, "it writes on several connections")
    peers = {cast(Peer, one.connection) for one in fakes.target.server.requests}
    fakes.run(12.0)
    assert is_any_incomplete(fakes)
    assert not any(peer.is_closed for peer in peers)
    fakes.run_to("t", 8)
    fakes.check_contents("t")


@pytest.mark.deep
def test_memory_comes_back(fakes: MirroredFakes) -> None:
    backlog(fakes, 3)
    fakes.start("t", 3)
    run_until_parallel(fakes)
    fakes.target.server.drop_connections(1)
    finish(fakes, 3)
    fakes.stop()
    assert fakes.context.write_budget.used == 0


@pytest.mark.deep
def test_connections_without_use_are_closed(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    finish(fakes)
    fakes.run(90.0)
    used = {one.connection for one in produced(fakes)}
    assert len([one for one in used if not cast(Peer, one).is_closed]) <= 1


def test_a_quota_that_throttles_the_additional_connections_is_named(fakes: MirroredFakes) -> None:
    backlog(fakes, 2)
    fakes.start("t", 2)
    run_until_parallel(fakes)
    fakes.target.faults.plant(PRODUCE, Throttle(2_000), times=None)

    def holds() -> dict[int, LaneHeldBack]:
        return {one.key.partition.partition: one for one in fakes.events if isinstance(one, LaneHeldBack)}

    fakes.run_until(lambda: len(holds()) == 2, "both lanes are reported")
    for held in holds().values():
        assert held.hold is not None
        assert (held.hold.owner, held.hold.broker) == (QuotaOwner.DESTINATION, 1)
        assert "for writing" in held.reason
    fakes.target.faults.clear()
    finish(fakes, 2)
    fakes.run_until(lambda: not any(held.reason for held in holds().values()), "the reports end")


def test_records_after_the_backlog_follow_in_order(fakes: MirroredFakes) -> None:
    backlog(fakes)
    fakes.start("t")
    run_until_parallel(fakes)
    for first in range(RECORDS, RECORDS + 100, 5):
        fakes.write("t", first, 5)
        fakes.run(0.05)
    fakes.run_to("t", RECORDS + 100)
    fakes.check("t")
