"""Compares the end of the destination log with the source after a crash, to prevent duplicates.

A crash loses the acknowledgements of batches sent since the last checkpoint. The batches that arrived are in
the destination log from `target_next` on, in order, possibly between records of other writers. This part of
the log (the tail) is compared record by record (key, value, headers, timestamp) with the source from the
checkpoint on, and the lane continues after the last match. Former owners must be fenced first, because one of
their batches could arrive after the comparison.

The destination may have compacted the tail. Records are sent in order. If a record follows exactly as many
unused offsets as the lane had records to send before it, those records were also copied.

A batch that cannot be decoded is compared as a whole, because the lane can only have copied it unchanged, or
skipped it according to its policy.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.log_reader import PartitionRange
from mirror.errors import (
    BatchTooLarge,
    CorruptData,
    HeadraceError,
    TransformFailed,
    UndecodableBatch,
    Unreachable,
)
from mirror.lane.batch_router import BatchRouter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass, SkippedOffsets
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import FoundRecords, Item
from mirror.lane.rules import Refusal
from mirror.model.datastreams.policy import Guarantee, OnRejection
from mirror.protocol.batches.batch import CONTROL, HEADER_SIZE, BatchHeader, scan
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.control.offsets import LATEST

_UNLIMITED: Final = 2**31
_AT_ONCE: Final = 50_000
"""Approximate number of records to decode before yielding to other lanes."""


class _ClosedBatch(NamedTuple):
    """A batch that cannot be decoded. `offset`: its base offset."""

    offset: int
    records: int
    content: bytes


class _Marker(NamedTuple):
    """Transaction markers in one batch of the destination log. `records`: their number."""

    offset: int
    records: int


_Piece = Record | _ClosedBatch


class _Slots:
    """Destination offsets since the last record that was matched. `room`: number of offsets. `unused`: number
    of offsets without a record."""

    __slots__ = ("_ranges", "room", "unused")

    def __init__(self) -> None:
        self._ranges: list[tuple[range, bool]] = []
        self.room = self.unused = 0

    def add(self, first: int, following: int, *, is_unused: bool) -> None:
        """Add the destination offsets up to `following`."""
        count = following - first
        if count:
            self._ranges.append((range(first, following), is_unused))
            self.room += count
            self.unused += count if is_unused else 0

    def clear(self) -> None:
        """Remove all destination offsets."""
        self._ranges.clear()
        self.room = self.unused = 0

    def __iter__(self) -> Iterator[tuple[int, bool]]:
        return ((offset, is_unused) for offsets, is_unused in self._ranges for offset in offsets)


class _ExpectedBatch(NamedTuple):
    """A record or undecodable batch that the lane would send next, with the offsets skipped before it."""

    passed: Sequence[SkippedOffsets]
    piece: _Piece


async def compare_tail(
    source: Cluster, target: Cluster, lane: Lane, offsets: tuple[int, int]
) -> list[FoundRecords | SkippedOffsets]:
    """Return the source records after the lane's checkpoint whose copies are in [start, end) of the
    destination log.

    Raises Unreachable. Raises CorruptData, BatchTooLarge or TransformFailed if the destination has further
    records, but the lane cannot send the batch that comes next.
    """
    start, end = offsets
    expected = _Expected(source, lane)
    found: list[FoundRecords | SkippedOffsets] = []
    committed = lane.spec.policy.guarantee is Guarantee.EXACTLY_ONCE
    span = PartitionRange(target, lane.target, start, end, committed=committed)
    following = span.position
    slots = _Slots()
    async for piece in _pieces(span, target.loop, lane.read.rules.opened_records):
        slots.add(following, piece.offset, is_unused=True)
        following = piece.offset + _size(piece)
        if isinstance(piece, _Marker):
            continue
        candidates = await expected.candidates()
        if not candidates:
            if expected.trouble is not None:
                raise expected.trouble
            break
        index = next((n for n, other in enumerate(candidates) if piece[1:] == other.piece[1:]), None)
        compacted = await expected.compacted_before(piece, slots) if index is None else ()
        if index is None and not compacted:
            slots.add(piece.offset, following, is_unused=False)
            continue
        for (skipped, copied), offset in zip(expected.take_first(len(compacted)), compacted, strict=True):
            found.extend(skipped)
            _add(found, copied, offset)
        found.extend(expected.take(index or 0))
        _add(found, expected.taken, piece.offset)
        slots.clear()
    return found


def _size(piece: _Piece | _Marker) -> int:
    return 1 if isinstance(piece, Record) else piece.records


def _advance(slots: Iterator[object], number: int) -> None:
    for _ in islice(slots, number):
        pass


def _compacted(skipped: Sequence[SkippedOffsets]) -> int:
    return sum(offsets.count for offsets in skipped if offsets.offset_class is OffsetClass.COMPACTED)


def _add(found: list[FoundRecords | SkippedOffsets], source: _Piece, target: int) -> None:
    """Store at which destination offset a copied record or batch was found."""
    last = found[-1] if found else None
    if isinstance(last, FoundRecords):
        is_next = last.source + last.length == source.offset and last.target + last.length == target
        if is_next:
            found[-1] = last._replace(length=last.length + _size(source))
            return
    found.append(FoundRecords(source.offset, target, _size(source)))


async def _pieces(span: PartitionRange, loop: Loop, most: int) -> AsyncIterator[_Piece | _Marker]:
    opened = 0
    async for batch, header in span.batches():
        if header is not None and header.attributes & CONTROL:
            yield _Marker(header.base_offset, header.last_offset_delta + 1)
        elif header is not None:
            for piece in _opened_batch(batch, header, most):
                yield piece
            opened += header.record_count
            if opened > _AT_ONCE:
                opened = 0
                await loop.sleep(0.0)


def _opened_batch(batch: memoryview, header: BatchHeader, most: int) -> Sequence[_Piece]:
    try:
        return read_batch(batch, header, most=most)
    except CorruptData:
        return [_ClosedBatch(header.base_offset, header.record_count, bytes(batch[HEADER_SIZE:]))]


class _Expected:
    """Yields the records and undecodable batches that the lane would send, in order from its checkpoint.
    `trouble`: the error that stops the lane after them."""

    def __init__(self, cluster: Cluster, lane: Lane) -> None:
        self._cluster = cluster
        self._lane = lane
        self._rules = replace(lane.read.rules, merge=None, batch_limit=_UNLIMITED, record_limit=_UNLIMITED)
        self._budget = ByteBudget(_UNLIMITED)
        self._span: PartitionRange | None = None
        self._waiting: list[_Piece | SkippedOffsets] = []
        """Records and undecodable batches to compare, as a stack: the next is the last element."""
        self._ahead: list[_ExpectedBatch] = []
        self.trouble: HeadraceError | None = None
        self.taken: _Piece = _ClosedBatch(-1, 0, b"")
        """The candidate of the last call of `take`."""
        offset_map = lane.progress.offset_map
        copied_to = offset_map.source_behind(offset_map.target_end or 0)
        self._holes = 0 if copied_to is None else lane.checkpoint - copied_to
        """Source offsets between the last known copy and the checkpoint."""
        self._sums: list[tuple[int, int]] = []
        """For the first of the pieces ahead: records before it, and the same with the offsets that the source
        has compacted. Many records of other producers may follow each other, so the sums are kept."""

    @property
    def _class_of_refused(self) -> OffsetClass | None:
        """Offset class for records that the lane cannot send. None if the lane pauses at such a record."""
        policy = self._lane.spec.policy.on_rejection
        if policy is OnRejection.PAUSE:
            return None
        return OffsetClass.FILTERED if policy is OnRejection.SKIP else OffsetClass.DEAD_LETTERED

    async def candidates(self) -> Sequence[_ExpectedBatch]:
        """Return the candidates for the next record at the destination. Empty at the end of the source.

        Candidates are the next record, and the undecodable batches before it, which the lane may have
        skipped.
        """
        number, may_skip = 0, self._class_of_refused is not None
        while number == 0 or (may_skip and isinstance(self._ahead[number - 1].piece, _ClosedBatch)):
            if number == len(self._ahead):
                following = await self._next()
                if following is None:
                    break
                self._ahead.append(following)
            number += 1
        return self._ahead[:number]

    async def compacted_before(self, piece: _Piece, slots: _Slots) -> Sequence[int]:
        """Return the destination offsets of records before `piece` whose copies were removed by compaction.

        The result is empty unless the offsets in `slots` (since the last match) are exactly those of these
        copies and of records that the source has compacted since.
        """
        if not slots.unused:
            return ()
        await self._add_up(slots.room)
        for column in (1, 0):
            index = bisect_left(self._sums, slots.room, key=itemgetter(column))
            if not 0 < index < len(self._sums) or self._sums[index][column] != slots.room:
                continue
            if self._ahead[index].piece[1:] == piece[1:]:
                return self._places(index, slots, has_holes=self._sums[index][0] != slots.room)
        return ()

    async def _add_up(self, room: int) -> None:
        """Extend the cumulative record counts of the expected records until `room` records are covered."""
        sums = self._sums
        while not sums or sums[-1][0] < room:
            index = len(sums)
            if index == len(self._ahead):
                following = await self._next()
                if following is None:
                    return
                self._ahead.append(following)
            records, holes = 0, self._holes
            if sums:
                records = sums[-1][0] + _size(self._ahead[index - 1].piece)
                holes = sums[-1][1] - sums[-1][0]
            sums.append((records, records + holes + _compacted(self._ahead[index].passed)))

    def _places(self, count: int, slots: _Slots, *, has_holes: bool) -> Sequence[int]:
        """Return the destination offsets that the next `count` records must have had. Empty if one is
        occupied. `has_holes`: also leave destination offsets for records that the source has compacted."""
        free = iter(slots)
        places = []
        if has_holes:
            _advance(free, self._holes)
        for passed, piece in self._ahead[:count]:
            if has_holes:
                _advance(free, _compacted(passed))
            taken = list(islice(free, _size(piece)))
            if not all(is_unused for _, is_unused in taken):
                return ()
            places.append(taken[0][0])
        return places

    def take_first(self, count: int) -> Sequence[_ExpectedBatch]:
        """Remove the next records, whose copies were removed by compaction."""
        first, self._ahead = self._ahead[:count], self._ahead[count:]
        return first

    def take(self, index: int) -> list[SkippedOffsets]:
        """Remove a candidate that was matched. Return the source offsets that were skipped before it."""
        passed: list[SkippedOffsets] = []
        for refused in self._ahead[:index]:
            offset_class, piece = self._class_of_refused, refused.piece
            assert offset_class is not None, "such a lane has one candidate"
            assert isinstance(piece, _ClosedBatch), "only the last candidate is a record"
            passed += refused.passed
            passed.append(SkippedOffsets(offset_class, piece.offset, piece.offset + piece.records))
        passed += self._ahead[index].passed
        self.taken, self._holes = self._ahead[index].piece, 0
        self._sums.clear()
        del self._ahead[: index + 1]
        return passed

    async def _next(self) -> _ExpectedBatch | None:
        passed: list[SkippedOffsets] = []
        while True:
            while self._waiting:
                following = self._waiting.pop()
                if not isinstance(following, SkippedOffsets):
                    return _ExpectedBatch(passed, following)
                passed.append(following)
            if self.trouble is not None or not await self._read():
                self._waiting = list(passed[::-1])
                return None

    async def _read(self) -> bool:
        lane, place = self._lane, self._lane.key.partition
        if self._span is None:
            committed = lane.read.rules.read_committed
            answer = (await self._cluster.offsets({place: LATEST}, committed=committed))[place]
            if answer.error:
                raise Unreachable(f"{self._cluster.name} returned no end offset for {place}")
            end = answer.offset
            if lane.spec.end_offset is not None:
                end = min(end, lane.spec.end_offset)
            self._span = PartitionRange(self._cluster, place, lane.checkpoint, end, committed=committed)
        part = await self._span.next_part()
        if part is None:
            return False
        router = BatchRouter(self._rules, self._span.position, self._budget, lane.spec.end_offset, _AT_ONCE)
        try:
            router.take(part.records, part.aborted, ReceiveBuffer(bytearray(), None))
        except (BatchTooLarge, CorruptData, TransformFailed) as error:
            self._meet(error, router.leader_epoch)
        self._span.position = router.position
        waiting: list[_Piece | SkippedOffsets] = []
        for item in router.items:
            waiting.extend(_opened(item, lane.read.rules.opened_records))
        self._waiting = waiting[::-1]
        return True

    def _meet(self, error: BatchTooLarge | CorruptData | TransformFailed, leader_epoch: int) -> None:
        """Handle a read error in the same way as the lane, which would get the same error."""
        rules = self._rules
        if self._class_of_refused is None:
            self.trouble = error
            return
        refusal = Refusal(self._class_of_refused, leader_epoch)
        if isinstance(error, BatchTooLarge | UndecodableBatch):
            self._rules = replace(rules, unopened={**rules.unopened, error.last_offset: refusal})
        elif isinstance(error, TransformFailed):
            self._rules = replace(rules, omitted={**rules.omitted, error.offset: refusal})
        else:
            self.trouble = error


def _opened(item: Item, most: int) -> list[_Piece | SkippedOffsets]:
    """Return the records of a fetched item, or its undecodable batch, with the skipped offsets between."""
    if isinstance(item, SkippedOffsets):
        return [item]
    header = next(scan(item.batch))[2]
    assert header is not None, "a router makes batches of format 2"
    offsets = [first + step for first, count in item.runs for step in range(count)]
    passed = list(item.origin.passed)[::-1]
    opened: list[_Piece | SkippedOffsets] = []
    pieces = _opened_batch(item.batch, header, most)
    for piece, offset in zip(pieces, offsets, strict=False):  # a batch that cannot be opened is one piece
        while passed and passed[-1].first < offset:
            opened.append(passed.pop())
        opened.append(piece._replace(offset=offset))
    opened.extend(passed[::-1])
    item.free()
    return opened
