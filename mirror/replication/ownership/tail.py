"""Comparing the destination's tail with the source, so that nothing is copied twice after a crash.

A crash loses the answers of what was sent since the last checkpoint. What of it has arrived lies at the
destination from `target_next` on, in order, perhaps with records of other writers between. So the tail is
read from there, and matched record by record (key, value, headers, timestamp) with what the source holds
from the checkpoint on; the lane then goes on behind the last match. Former owners must be fenced before,
or a batch of theirs could arrive after the look.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.log_reader import PartitionRange
from mirror.errors import BatchTooLarge, TransformFailed, Unreachable
from mirror.lane.batch_router import BatchRouter
from mirror.lane.ledger import OffsetClass
from mirror.lane.memory import ByteBudget, Slab
from mirror.lane.out_batch import Found, Item, SkippedOffsets
from mirror.model.datastreams.policy import Guarantee, OnRejection
from mirror.protocol.batches.batch import CONTROL, scan
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.control.offsets import LATEST
from mirror.replication.live_lane import LiveLane

_UNLIMITED = 2**31
_AT_ONCE = 50_000
"""Records to open, about, before the other lanes get their turn."""


async def compare_tail(source: Cluster, target: Cluster, lane: LiveLane, end: int) -> list[Found]:
    """What of the source, from the lane's checkpoint on, lies at the destination in [target_next, end).

    Raises Unreachable, CorruptData.
    """
    assert lane.target_next is not None, "without it there is nothing to compare"
    expected = _Expected(source, lane)
    found: list[Found] = []
    committed = lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE
    span = PartitionRange(target, lane.target, lane.target_next, end, committed=committed)
    async for record in _records(span, target.loop):
        following = await expected.peek()
        if following is None:
            break
        if record.content == following.content:
            found.extend(expected.passed)
            _add(found, following.offset, record.offset)
            expected.advance()
    return found


def _add(found: list[Found], source: int, target: int) -> None:
    if found and found[-1].offset_class is OffsetClass.MIRRORED:
        last = found[-1]
        if last.source + last.length == source and last.target + last.length == target:
            found[-1] = last._replace(length=last.length + 1)
            return
    found.append(Found(OffsetClass.MIRRORED, 1, source, target))


async def _records(span: PartitionRange, loop: Loop) -> AsyncIterator[Record]:
    opened = 0
    async for batch, header in span.batches():
        if header is not None and not header.attributes & CONTROL:
            for record in read_batch(batch, header):
                yield record
            opened += header.record_count
            if opened > _AT_ONCE:
                opened = 0
                await loop.sleep(0.0)


class _Expected:
    """The records that the lane would send from its checkpoint on, one after the other.

    `passed`: classes of the offsets between the last record taken and the next one.
    """

    def __init__(self, cluster: Cluster, lane: LiveLane) -> None:
        self._cluster = cluster
        self._lane = lane
        self._rules = replace(lane.rules, merge=None, batch_limit=_UNLIMITED)
        self._budget = ByteBudget(_UNLIMITED)
        self._span: PartitionRange | None = None
        self._waiting: list[Record | SkippedOffsets] = []
        self.passed: list[Found] = []

    async def peek(self) -> Record | None:
        """The next record; None when the source has no more."""
        while True:
            while self._waiting:
                first = self._waiting[-1]
                if isinstance(first, Record):
                    return first
                self.passed.append(Found(first.offset_class, first.count))
                self._waiting.pop()
            if not await self._read():
                return None

    def advance(self) -> None:
        """Take the record that `peek` has shown."""
        self._waiting.pop()
        self.passed = []

    async def _read(self) -> bool:
        lane, place = self._lane, self._lane.key.partition
        if self._span is None:
            committed = lane.rules.read_committed
            answer = (await self._cluster.offsets({place: LATEST}, committed=committed))[place]
            if answer.error:
                raise Unreachable(f"the end of {place} at {self._cluster.name} is not known now")
            end = answer.offset
            if lane.spec.end_offset is not None:
                end = min(end, lane.spec.end_offset)
            self._span = PartitionRange(self._cluster, place, lane.checkpoint, end, committed=committed)
        part = await self._span.next_part()
        if part is None:
            return False
        router = BatchRouter(self._rules, self._span.position, self._budget, lane.spec.end_offset, _AT_ONCE)
        try:
            router.take(part.records, part.aborted, Slab(bytearray(), None))
        except (BatchTooLarge, TransformFailed) as error:
            self._omit(error)
        self._span.position = router.position
        waiting: list[Record | SkippedOffsets] = []
        for item in router.items:
            waiting.extend(_opened(item))
        self._waiting = waiting[::-1]
        return True

    def _omit(self, error: BatchTooLarge | TransformFailed) -> None:
        """Treat it as the lane does, which meets it again if it continues before it."""
        policy = self._lane.spec.policy.on_rejection
        if policy is OnRejection.PAUSE:
            raise error
        offset_class = OffsetClass.FILTERED if policy is OnRejection.SKIP else OffsetClass.DEAD_LETTERED
        if isinstance(error, BatchTooLarge):
            self._rules = replace(self._rules, unopened={**self._rules.unopened, error.offset: offset_class})
        else:
            self._rules = replace(self._rules, omitted={**self._rules.omitted, error.offset: offset_class})


def _opened(item: Item) -> list[Record | SkippedOffsets]:
    """An item's records with their source offsets, and the classes of the offsets between them."""
    if isinstance(item, SkippedOffsets):
        return [item]
    header = next(scan(item.batch))[2]
    assert header is not None, "a router makes batches of format 2"
    offsets = [first + step for first, count in item.runs for step in range(count)]
    offset_classes = [passed.offset_class for passed in item.passed or () for _ in range(passed.count)]
    opened: list[Record | SkippedOffsets] = []
    cursor = item.first_offset
    for record, offset in zip(read_batch(item.batch, header), offsets, strict=True):
        opened.extend(SkippedOffsets(offset_class, 1) for offset_class in offset_classes[: offset - cursor])
        del offset_classes[: offset - cursor]
        opened.append(record._replace(offset=offset))
        cursor = offset + 1
    opened.extend(SkippedOffsets(offset_class, 1) for offset_class in offset_classes)
    item.free()
    return opened
