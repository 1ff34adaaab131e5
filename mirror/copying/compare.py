"""Comparing a partition with its copy: every record, in order, whatever the offsets are.

Where both sides hold the very same batch, one comparison of bytes settles all its records; elsewhere the
records are decoded. Control records and aborted transactions are left out on both sides.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.copying.cluster import Cluster
from mirror.copying.log_reader import Stretch
from mirror.lane.rules import AbortedFilter
from mirror.model.topics import TopicPartition
from mirror.wire.batch import CODEC_MASK, CONTROL, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, scan, verify
from mirror.wire.legacy import last_offset, read_message
from mirror.wire.records import Record, read_batch
from mirror.wire.varint import encode

MOST_DIFFERENCES: Final = 5


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: [start, end) of a partition."""

    cluster: Cluster
    place: TopicPartition
    start: int
    end: int
    committed: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the sides part. An offset of -1: that side has no record there any more."""

    source_offset: int
    target_offset: int
    what: str


@dataclass
class Comparison:
    """The result for one partition. `records` were compared and are equal; the counts are what each side
    holds beyond them."""

    records: int = 0
    equal_batches: int = 0
    missing: int = 0
    surplus: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        """Whether both sides hold the same records in the same order."""
        return not (self.differences or self.missing or self.surplus)


class _Cursor:
    """Goes through the batches of one side; opens one only when records are asked for."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._stretch = Stretch(side.cluster, side.place, side.start, side.end, committed=side.committed)
        self._batches: list[tuple[memoryview, BatchHeader | None]] = []
        self.records: list[Record] = []
        """Opened and not taken yet, the next one last."""

    async def ready(self) -> bool:
        """Whether there is anything left."""
        while not self.records and not self._batches:
            part = await self._stretch.next_part()
            if part is None:
                return False
            aborted = AbortedFilter(part.aborted) if self._side.committed else None
            for start, end, header in scan(part.records):
                self._note(part.records[start:end], header, aborted)
            self._batches.reverse()
        return True

    def _note(self, batch: memoryview, header: BatchHeader | None, aborted: AbortedFilter | None) -> None:
        last = last_offset(batch) if header is None else header.last_offset
        if last < self._stretch.position:
            return
        if header is not None:
            verify(batch, header)
            fate = aborted.fate(batch, header) if aborted else header.attributes & CONTROL or None
            if header.base_offset < self._side.end and fate is None and header.record_count:
                self._batches.append((batch, header))
        else:
            self._batches.append((batch, None))
        self._stretch.position = last + 1

    def whole(self) -> tuple[memoryview, BatchHeader] | None:
        """The next batch, if none of it has been taken and it lies inside of the stretch as a whole."""
        if self.records or not self._batches:
            return None
        batch, header = self._batches[-1]
        if header is None or header.base_offset < self._side.start or header.attributes & LOG_APPEND_TIME:
            return None
        return batch, header

    def skip(self) -> None:
        """The next batch is settled."""
        self._batches.pop()

    def open(self) -> None:
        """Decode the next batch."""
        if not self.records:
            batch, header = self._batches.pop()
            records = read_message(batch) if header is None else read_batch(batch, header)
            side = self._side
            self.records = [record for record in reversed(records) if side.start <= record.offset < side.end]

    async def count_rest(self) -> int:
        """How many records are left; the cursor is at its end then."""
        count = 0
        while await self.ready():
            if not self.records:
                self.open()
            count += len(self.records)
            self.records = []
        return count


async def compare(source: Side, target: Side) -> Comparison:
    """Every record of one side with its counterpart. Stops looking for differences after a few.

    Raises Unreachable, CorruptData.
    """
    result = Comparison()
    one, two = _Cursor(source), _Cursor(target)
    while len(result.differences) < MOST_DIFFERENCES:
        here, there = await one.ready(), await two.ready()
        if not (here and there):
            break
        _compare_next(one, two, result)
    if len(result.differences) < MOST_DIFFERENCES:
        result.missing, result.surplus = await one.count_rest(), await two.count_rest()
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
            result.differences.append(Difference(here.offset, there.offset, _differing(here, there)))


def _is_same(one: memoryview, first: BatchHeader, two: memoryview, second: BatchHeader) -> bool:
    return (
        first.record_count == second.record_count
        and first.base_timestamp == second.base_timestamp
        and first.attributes & CODEC_MASK == second.attributes & CODEC_MASK
        and not second.attributes & LOG_APPEND_TIME
        and bytes(one[HEADER_SIZE:]) == bytes(two[HEADER_SIZE:])  # views are compared byte by byte
    )


def _differing(here: Record, there: Record) -> str:
    names = [
        name
        for name in ("timestamp", "key", "value", "headers")
        if getattr(here, name) != getattr(there, name)
    ]
    details = [
        f"{name} {_short(getattr(here, name))} against {_short(getattr(there, name))}" for name in names
    ]
    return "; ".join(details)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


@dataclass(frozen=True, slots=True)
class RangeHash:
    """The content of so many records: their first and last offset, and a digest of them in order."""

    first_offset: int
    last_offset: int
    records: int
    digest: str


async def hash_ranges(side: Side, records_per_range: int) -> list[RangeHash]:
    """Digests over keys, values, headers and timestamps; equal contents give equal digests on both
    sides, whatever batches and offsets they lie in. Raises Unreachable, CorruptData."""
    found: list[RangeHash] = []
    cursor = _Cursor(side)
    taken: list[Record] = []
    while await cursor.ready():
        cursor.open()
        while cursor.records:
            taken.append(cursor.records.pop())
            if len(taken) == records_per_range:
                found.append(_hash(taken))
                taken = []
    if taken:
        found.append(_hash(taken))
    return found


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
