"""Test the checkpoint of a lane with several batches in flight."""

from __future__ import annotations

import pytest

from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.offset_map import CHUNK
from mirror.lane.out_batch import OutBatch
from mirror.lane.progress import chunk_key
from mirror.lane.rules import RoutingRules
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from mirror.replication.lanes.producer_identities import ProducerIdentities
from tests.builders import a_spec

DELIVERY = LaneDelivery(UnsavedProgress("test"))
IDENTITIES = ProducerIdentities(DELIVERY)


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
    DELIVERY.unsaved.begin(lane, 0)
    IDENTITIES.renew(lane, ProducerStamp(1, 0))
    DELIVERY.accept(lane, router, 0.0)
    DELIVERY.acknowledge(lane, sent(lane), 0, 0, 0.0)
    DELIVERY.settle(lane)
    assert DELIVERY.unsaved.dirty.pop(lane, True) is None
    return lane


def sent(lane: Lane) -> OutBatch:
    outgoing = DELIVERY.next_batch(lane)
    assert outgoing is not None
    return outgoing


def test_a_batch_acknowledged_behind_a_refused_one_moves_no_checkpoint() -> None:
    lane = lane_with(3)
    refused, taken = sent(lane), sent(lane)
    DELIVERY.unanswered(lane, refused, maybe_stored=True)
    DELIVERY.acknowledge(lane, taken, 2, 0, 0.0)
    DELIVERY.settle(lane)
    assert lane not in DELIVERY.unsaved.dirty
    assert (lane.checkpoint, lane.progress.offset_map.target_end) == (1, 1)
    DELIVERY.requeue(lane)
    assert sent(lane) is refused
    DELIVERY.acknowledge(lane, refused, 1, 0, 0.0)
    DELIVERY.settle(lane)
    assert DELIVERY.unsaved.dirty.pop(lane, True) is None
    assert (lane.checkpoint, lane.progress.offset_map.target_end) == (3, 3)


def test_offsets_are_of_the_owner_until_another_identity_or_records_of_others_come() -> None:
    lane = lane_with(1)
    lane.progress.owner, lane.progress.owned_from = (1, 0), 40
    IDENTITIES.renew(lane, ProducerStamp(1, 0))
    assert lane.stored_progress().owned_from == 40
    IDENTITIES.renew(lane, ProducerStamp(1, 1))
    assert lane.stored_progress().owned_from is None
    lane.progress.owned_from = 40
    lane.progress.find([], 50)
    assert lane.stored_progress().owned_from is None


def test_tombstones_of_emptied_chunks_are_written_until_a_write_succeeds() -> None:
    unsaved, lane = DELIVERY.unsaved, Lane(a_spec("t-0"))
    unsaved.begin(lane, 0)
    for number in range(3 * CHUNK):
        lane.progress.offset_map.add(number * 10, number * 3, 2)
    unsaved.records_of(lane, 1)[1]()
    lane.read.log_start = CHUNK * 10
    assert _tombstones(lane) == [chunk_key(lane.key, 0)]
    lane.read.log_start = 2 * CHUNK * 10
    emptied = [chunk_key(lane.key, number) for number in range(2)]
    assert _tombstones(lane) == emptied, "the first write has failed"
    unsaved.records_of(lane, 1)[1]()
    assert _tombstones(lane) == []


@pytest.mark.parametrize("rewound", ["rewind", "another map"])
def test_runs_that_are_replaced_during_a_write_are_written_again(rewound: str) -> None:
    unsaved, lane = DELIVERY.unsaved, Lane(a_spec("t-0"))
    unsaved.begin(lane, 0)
    for number in range(3 * CHUNK):
        lane.progress.offset_map.add(number * 10, number * 3, 2)
    _, note_stored = unsaved.records_of(lane, 1)
    if rewound == "rewind":
        lane.progress.offset_map.rewind(50)
    else:
        unsaved.begin(lane, 0)
    for number in range(5, 2 * CHUNK):
        lane.progress.offset_map.add(number * 10, number * 4, 2)
    note_stored()
    entries, _ = unsaved.records_of(lane, 2)
    assert chunk_key(lane.key, 0) in dict(entries)


def _tombstones(lane: Lane) -> list[bytes]:
    """Return the keys that the next write of the lane's progress deletes."""
    entries, _ = DELIVERY.unsaved.records_of(lane, 1)
    return [key for key, value in entries if value is None]
