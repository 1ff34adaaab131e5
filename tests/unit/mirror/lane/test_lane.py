"""Test the checkpoint of a lane with several batches in flight."""

from __future__ import annotations

from mirror.lane.batch_router import BatchRouter
from mirror.lane.lane import Lane
from mirror.lane.memory import ByteBudget, ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.lane.rules import RoutingRules
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.records import Record, write_batch
from tests.builders import a_spec


def lane_with(batches: int) -> Lane:
    """Return a lane with queued batches of one record each; the first is acknowledged."""
    data = bytearray()
    for number in range(batches):
        batch = write_batch([Record(0, 1, None, b"value")])
        batch[0:8] = number.to_bytes(8, "big")
        data += batch
    router = BatchRouter(RoutingRules(), 0, ByteBudget(10**6))
    router.take(memoryview(data), (), ReceiveBuffer(bytearray(), None))
    lane = Lane(a_spec("t-0"))
    lane.begin(0)
    lane.identify(ProducerStamp(1, 0))
    lane.accept(router, 0.0)
    lane.acknowledge(sent(lane), 0, 0, 0.0)
    assert lane.settle()
    return lane


def sent(lane: Lane) -> OutBatch:
    outgoing = lane.next_to_send()
    assert outgoing is not None
    return outgoing


def test_a_batch_acknowledged_behind_a_refused_one_moves_no_checkpoint() -> None:
    lane = lane_with(3)
    refused, taken = sent(lane), sent(lane)
    lane.queue.unanswered(refused, maybe_stored=True)
    lane.acknowledge(taken, 2, 0, 0.0)
    assert not lane.settle()
    assert (lane.checkpoint, lane.progress.offset_map.target_end) == (1, 1)
    lane.queue.requeue()
    assert sent(lane) is refused
    lane.acknowledge(refused, 1, 0, 0.0)
    assert lane.settle()
    assert (lane.checkpoint, lane.progress.offset_map.target_end) == (3, 3)


def test_offsets_are_of_the_owner_until_another_identity_or_records_of_others_come() -> None:
    lane = lane_with(1)
    lane.progress.owner, lane.progress.owned_from = (1, 0), 40
    lane.identify(ProducerStamp(1, 0))
    assert lane.stored_progress().owned_from == 40
    lane.identify(ProducerStamp(1, 1))
    assert lane.stored_progress().owned_from is None
    lane.progress.owned_from = 40
    lane.progress.find([], 50)
    assert lane.stored_progress().owned_from is None
