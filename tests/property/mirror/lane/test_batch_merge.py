"""Merging of waiting batches: the same records, the same offsets, within the limits."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.lane.batch_merge import next_size
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.ledger import SkippedOffsets
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import OutBatch
from mirror.lane.rules import MergeRule, RoutingRules
from mirror.protocol.batches.batch import ProducerStamp, scan, seal, verify
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record, read_batch
from mirror.replication.lanes.delivery import LaneDelivery, UnsavedProgress
from tests.builders import a_spec
from tests.examples import examples

DELIVERY = LaneDelivery(UnsavedProgress("test"))
RULES = RoutingRules(merge=MergeRule(records=(0, 0, 0, 0, 0), small_bytes=0))
values = st.one_of(st.none(), st.binary(max_size=300), st.text(max_size=20).map(str.encode))
records = st.tuples(st.integers(0, 2**40), values, values)
batches = st.lists(
    st.tuples(st.lists(records, min_size=1, max_size=6), st.sampled_from([0, 0, 0, 1]), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


def lane_with(drawn: list[tuple[list[tuple[int, bytes | None, bytes | None]], int, int]]) -> Lane:
    """Return a lane whose queue has a batch for each element, with holes of the drawn sizes before them."""
    lane = Lane(a_spec())
    lane.read.rules, lane.read.position = RULES, 0
    slab, offset, log = ReceiveBuffer(bytearray(), None), 0, bytearray()
    for contents, codec, hole in drawn:
        offset += hole
        batch = write_batch([Record(0, *content) for content in contents], codec)
        batch[0:8] = offset.to_bytes(8, "big")
        log += batch
        offset += len(contents)
    router = BatchRouter(RULES, 0, ByteBudget(2**30))
    router.take(memoryview(log), (), slab)
    DELIVERY.accept(lane, router, 1.0)
    DELIVERY.settle(lane)
    return lane


def contents_of(lane: Lane) -> list[tuple[int, Record]]:
    """Return the records in the queue, with their source offsets."""
    found = []
    for item in lane.queue.unsent:
        if isinstance(item, OutBatch):
            header = next(scan(item.batch))[2]
            assert header is not None
            verify(item.batch, header)
            offsets = [first + step for first, count in item.runs for step in range(count)]
            made = read_batch(item.batch, header)
            found += [(at, one._replace(offset=0)) for at, one in zip(offsets, made, strict=True)]
    return found


def skipped_of(lane: Lane) -> int:
    """Return the number of offsets in the queue that have no record."""
    items = lane.queue.unsent
    inside = [one for item in items if isinstance(item, OutBatch) for one in item.origin.passed]
    return sum(one.count for one in [*inside, *(one for one in items if isinstance(one, SkippedOffsets))])


@given(batches, st.integers(100, 3_000))
@settings(max_examples=examples(150))
def test_batch_merge_changes_no_record_and_no_offset(
    drawn: list[tuple[list[tuple[int, bytes | None, bytes | None]], int, int]], most: int
) -> None:
    lane, budget = lane_with(drawn), ByteBudget(2**20)
    before, skipped, count = contents_of(lane), skipped_of(lane), len(lane.queue.unsent)
    single = max(len(item.batch) for item in lane.queue.unsent if isinstance(item, OutBatch))
    expected = next_size(lane, most)
    DELIVERY.merge(lane, most, budget)
    assert contents_of(lane) == before
    assert skipped_of(lane) == skipped
    assert lane.queue.bytes_in_hand == sum(len(batch.batch) for batch in lane.queue.batches())
    first = next(lane.queue.batches())
    if len(lane.queue.unsent) < count:
        assert len(first.batch) <= max(most, single)
        assert budget.used == len(first.batch) <= expected + 20 * len(drawn) * 6
        assert first.origin.source_batches > 1
    else:
        assert budget.used == 0


def test_batches_that_were_sent_before_stay_as_they_are() -> None:
    lane, budget = lane_with([([(1, b"k", b"v")], 0, 0)] * 3), ByteBudget(2**20)
    lane.ownership.identity = ProducerStamp(7, 0)
    assert DELIVERY.next_batch(lane) is not None
    DELIVERY.unanswered(lane, next(lane.queue.batches()), maybe_stored=True)
    DELIVERY.requeue(lane)
    DELIVERY.merge(lane, 2**20, budget)
    assert len(list(lane.queue.batches())) == 3


def test_a_batch_that_cannot_be_taken_apart_is_sent_as_it_is() -> None:
    lane, budget = lane_with([([(1, b"k", b"v" * 50)], 0, 0)] * 2), ByteBudget(2**20)
    first = next(lane.queue.batches())
    first.batch = memoryview(bytearray(first.batch))
    first.batch[61] = 0x7E  # the length of its record
    seal(first.batch)
    DELIVERY.merge(lane, 2**20, budget)
    assert len(list(lane.queue.batches())) == 2
    assert budget.used == 0


def test_nothing_is_merged_where_merging_is_off() -> None:
    lane = lane_with([([(1, b"k", b"v")], 0, 0)] * 2)
    lane.read.rules = replace(RULES, merge=None)
    DELIVERY.merge(lane, 2**20, ByteBudget(2**20))
    assert len(list(lane.queue.batches())) == 2
