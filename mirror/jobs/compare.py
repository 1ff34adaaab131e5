"""Comparison of a partition with its copy: every record, in order, regardless of offsets.

The copy may grow during the comparison. Records before the end offset that the source had at the start must
then arrive; later records are compared only as far as the copy has them.

If both sides have the same batch, one comparison of bytes covers all its records; otherwise the records are
decoded. Control records and aborted transactions are skipped on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange
from mirror.lane.ledger import LeftOut, Uncopied, UncopiedTally
from mirror.lane.rules import AbortedFilter
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    scan,
    verify,
)
from mirror.protocol.batches.legacy import last_offset, read_message
from mirror.protocol.batches.records import JOB_PARTS, Record, read_batch
from mirror.protocol.varint import encode

MOST_DIFFERENCES: Final = 5
_PATIENCE_SECONDS: Final = 5.0
"""Time for which a copy must not grow before its remaining records count as missing."""
_LOOK_SECONDS: Final = 0.2


def _noted_nowhere(_offsets: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: the range [start, end) of a partition.

    `left_out`: classes of records; only copied records are compared, and other records are counted.
    """

    cluster: Cluster
    place: TopicPartition
    start: int
    end: int
    committed: bool
    left_out: LeftOut | None = None
    on_read: Callable[[int], None] = field(default=_noted_nowhere, compare=False, repr=False)
    """Callback for the number of offsets read since the last call."""


Look = Callable[[Side], Awaitable[int]]
"""Lookup of a side's present end."""


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """A difference between the sides. An offset of -1 means that the side has no record there."""

    source_offset: int
    target_offset: int
    what: str


@dataclass
class Comparison:
    """Result for one partition.

    `records`: number of equal records; `missing` and `surplus`: numbers of unmatched records of the source
    and of the copy. `source_end` and `target_end`: ends of the compared ranges. `uncopied`: source records
    that were not compared because the map lacks them.
    """

    records: int = 0
    equal_batches: int = 0
    missing: int = 0
    surplus: int = 0
    source_end: int = 0
    target_end: int = 0
    uncopied: Uncopied = field(default_factory=Uncopied)
    differences: list[RecordDifference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Return whether both sides have the same records in the same order."""
        return not (self.differences or self.missing or self.surplus)


class _Cursor:
    """A cursor over the batches of one side. Batches are opened only when their records are needed."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._span = self._from(side.start, side.end)
        self.end = side.end
        self._batches: list[tuple[memoryview, BatchHeader | None]] = []
        self.records: list[Record] = []
        """Decoded records that were not compared yet, in reverse order."""
        self._tally = UncopiedTally(side.left_out) if side.left_out is not None else None

    @property
    def uncopied(self) -> Uncopied:
        """Records that were read but are not copied."""
        return self._tally.judge() if self._tally is not None else Uncopied()

    def _from(self, start: int, end: int) -> PartitionRange:
        side = self._side
        return PartitionRange(side.cluster, side.place, start, end, committed=side.committed)

    @property
    def position(self) -> int:
        """Offset of the next record, or the end if there is none."""
        if self.records:
            return self.records[-1].offset
        if self._batches:
            batch, header = self._batches[-1]
            return header.base_offset if header is not None else read_message(batch)[0].offset
        return self._span.position

    def extend(self, end: int) -> None:
        """Extend the range to `end` after the log has grown."""
        self.end = end
        self._span = self._from(self._span.position, end)

    async def take(self, count: int) -> list[Record]:
        """Take the next records, at most `count`."""
        taken: list[Record] = []
        while len(taken) < count and await self.ready():
            self.open()
            while self.records and len(taken) < count:
                taken.append(self.records.pop())
        return taken

    async def ready(self) -> bool:
        """Return whether any records remain."""
        while not self.records and not self._batches:
            part = await self._span.next_part()
            if part is None:
                return False
            aborted = AbortedFilter(part.aborted) if self._side.committed else None
            before = self._span.position
            for start, end, header in scan(part.records):
                if header is not None and header.base_offset >= self.end:
                    self._span.position = self.end
                    break
                self._note(part.records[start:end], header, aborted)
            self._batches.reverse()
            self._side.on_read(self._span.position - before)
        return True

    def _note(self, batch: memoryview, header: BatchHeader | None, aborted: AbortedFilter | None) -> None:
        last = last_offset(batch) if header is None else header.last_offset
        if last < self._span.position:
            return
        if header is not None:
            verify(batch, header)
            offset_class = (
                aborted.offset_class(batch, header) if aborted else header.attributes & CONTROL or None
            )
            if offset_class is None and header.record_count and not self._is_left_out(header):
                self._batches.append((batch, header))
        else:
            self._batches.append((batch, None))
        self._span.position = last + 1

    def _is_left_out(self, header: BatchHeader) -> bool:
        """Return whether no record of the batch was copied, possibly because the batch cannot be decoded; if
        so, count it."""
        left_out, tally = self._side.left_out, self._tally
        first, end = max(header.base_offset, self._side.start), min(header.last_offset + 1, self.end)
        if left_out is None or tally is None or not left_out.are_left_out(first, end):
            return False
        tally.note(first, min(header.record_count, end - first))
        return True

    def whole(self) -> tuple[memoryview, BatchHeader] | None:
        """Return the next batch if none of its records was compared yet and it is entirely within the
        range."""
        if self.records or not self._batches:
            return None
        batch, header = self._batches[-1]
        if header is None or header.base_offset < self._side.start or header.attributes & LOG_APPEND_TIME:
            return None
        left_out = self._side.left_out
        if left_out is not None and not left_out.are_copied(header.base_offset, header.last_offset + 1):
            return None
        return batch, header

    def skip(self) -> None:
        """Drop the next batch, which has been compared."""
        self._batches.pop()

    def open(self) -> None:
        """Decode the next batch."""
        if not self.records:
            batch, header = self._batches.pop()
            records = read_message(batch) if header is None else read_batch(batch, header, most=JOB_PARTS)
            start, left_out = self._side.start, self._side.left_out
            for record in reversed(records):
                if not start <= record.offset < self.end:
                    continue
                if left_out is None or self._tally is None or left_out.is_copied(record.offset):
                    self.records.append(record)
                else:
                    self._tally.note(record.offset)

    async def count_rest(self, before: int) -> int:
        """Count the remaining records before an offset."""
        count = 0
        while await self.ready():
            self.open()
            count += sum(record.offset < before for record in self.records)
            self.records = []
            if self.position >= before:
                break
        return count


class _Sides:
    """Cursors of both sides.

    `look` returns the present end of a side, to follow growing logs. Without it, the ends are fixed.
    """

    def __init__(self, source: Side, target: Side, look: Look | None) -> None:
        self.one, self.two = _Cursor(source), _Cursor(target)
        self._source, self._target = source, target
        self._look = look
        self._is_source_newer = False

    async def more_source(self) -> bool:
        """Extend the source if the copy has more records, which were written after the end was determined.

        Return whether the source has any.
        """
        if self._look is None or self._is_source_newer:
            return False
        self.one.extend(max(await self._look(self._source), self.one.end))
        self._is_source_newer = True
        return await self.one.ready()

    async def more_target(self, wanted: int) -> bool:
        """Wait, as long as the copy grows, for the record at this source offset that the copy still lacks.

        Return False for a record written after the start of the comparison.
        """
        if self._look is None or wanted >= self._source.end:
            return False
        loop = self._target.cluster.loop
        until = loop.now() + _PATIENCE_SECONDS
        while not await self.two.ready():
            end = await self._look(self._target)
            if end > self.two.end:
                self.two.extend(end)
                self._is_source_newer = False
                until = loop.now() + _PATIENCE_SECONDS
            elif loop.now() > until:
                return False
            else:
                await loop.sleep(_LOOK_SECONDS)
        return True


async def compare(source: Side, target: Side, look: Look | None = None) -> Comparison:
    """Compare every record of one side with its counterpart. Stops after a few differences.

    With `look`, the logs may grow. Raises Unreachable, CorruptData.
    """
    result = Comparison()
    sides = _Sides(source, target, look)
    one, two = sides.one, sides.two
    while len(result.differences) < MOST_DIFFERENCES:
        here, there = await one.ready(), await two.ready()
        if here and there:
            _compare_next(one, two, result)
        elif not (await sides.more_target(one.position) if here else there and await sides.more_source()):
            break
    result.source_end, result.target_end = max(one.position, source.end), two.end
    if len(result.differences) < MOST_DIFFERENCES:
        result.missing, result.surplus = await one.count_rest(source.end), await two.count_rest(two.end)
    result.uncopied = one.uncopied
    return result


def _compare_next(one: _Cursor, two: _Cursor, result: Comparison) -> None:
    first, second = one.whole(), two.whole()
    if first is not None and second is not None and _is_same(*first, *second):
        result.records += first[1].record_count
        result.equal_batches += 1
        one.skip()
        two.skip()
        return
    one.open()
    two.open()
    while one.records and two.records and len(result.differences) < MOST_DIFFERENCES:
        here, there = one.records.pop(), two.records.pop()
        if here.content == there.content:
            result.records += 1
        else:
            result.differences.append(RecordDifference(here.offset, there.offset, _differing(here, there)))


def _is_same(one: memoryview, first: BatchHeader, two: memoryview, second: BatchHeader) -> bool:
    return (
        first.record_count == second.record_count
        and first.base_timestamp == second.base_timestamp
        and first.attributes & CODEC_MASK == second.attributes & CODEC_MASK
        and not second.attributes & LOG_APPEND_TIME
        and bytes(one[HEADER_SIZE:]) == bytes(two[HEADER_SIZE:])  # memoryviews compare element by element
    )


def _differing(here: Record, there: Record) -> str:
    names = [
        name
        for name in ("timestamp", "key", "value", "headers")
        if getattr(here, name) != getattr(there, name)
    ]
    details = [f"{name} {_short(getattr(here, name))} vs {_short(getattr(there, name))}" for name in names]
    return "; ".join(details)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


@dataclass(frozen=True, slots=True)
class RangeHash:
    """First and last offset of a range of records, and a digest of their contents in order."""

    first_offset: int
    last_offset: int
    records: int
    digest: str


@dataclass
class RangeComparison:
    """Result for one partition: pairs of ranges that differ, None for a side without further records.

    `source_end` and `target_end`: ends of the compared ranges. `uncopied` as in `Comparison`.
    """

    differing: list[tuple[RangeHash | None, RangeHash | None]] = field(default_factory=list)
    source_end: int = 0
    target_end: int = 0
    uncopied: Uncopied = field(default_factory=Uncopied)


async def compare_ranges(
    source: Side, target: Side, records_per_range: int, look: Look | None = None
) -> RangeComparison:
    """Compare digests over keys, values, headers and timestamps.

    Equal contents have equal digests, regardless of batches and offsets. `look` as for `compare`. Raises
    Unreachable, CorruptData.
    """
    result = RangeComparison(source_end=source.end)
    sides = _Sides(source, target, look)
    one, two = sides.one, sides.two
    while True:
        here = await one.take(records_per_range)
        if not here and await two.ready() and await sides.more_source():
            here = await one.take(records_per_range)
        there = await two.take(len(here) or records_per_range)
        while len(there) < len(here) and await sides.more_target(here[len(there)].offset):
            there += await two.take(len(here) - len(there))
        if len(there) < len(here):
            here = [record for n, record in enumerate(here) if n < len(there) or record.offset < source.end]
        if not (here or there):
            break
        pair = (_hash(here) if here else None, _hash(there) if there else None)
        if pair[0] is None or pair[1] is None or pair[0].digest != pair[1].digest:
            result.differing.append(pair)
        result.source_end = max(here[-1].offset + 1 if here else 0, result.source_end)
    result.target_end, result.uncopied = two.end, one.uncopied
    return result


def _hash(records: Sequence[Record]) -> RangeHash:
    digest = hashlib.blake2b(digest_size=16)
    for record in records:
        digest.update(encode(record.timestamp))
        for value in (record.key, record.value):
            digest.update(b"\x01" if value is None else encode(len(value)) + value)
        digest.update(encode(len(record.headers)))
        for key, value in record.headers:
            digest.update(encode(len(key)) + key)
            digest.update(b"\x01" if value is None else encode(len(value)) + value)
    return RangeHash(records[0].offset, records[-1].offset, len(records), digest.hexdigest())
