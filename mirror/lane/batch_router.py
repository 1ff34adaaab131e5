"""From fetched bytes to what a lane has to do: verify every batch, find the class of every offset, and
choose how each batch goes on its way.

A batch passes unopened when nothing about it has to change. It is reframed when it has holes, begins
before our position, carries append times or is too large, or when small batches have piled up: a
broker pays 35 to 45 microseconds for a batch beside what its bytes cost, so sending ten records at a
time costs the destination more than merging them costs us (`python -m bench mirror_drain`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, PayloadTooLarge, RecordTooLarge, TransformFailed
from mirror.lane.ledger import OffsetClass
from mirror.lane.memory import ByteBudget, Slab
from mirror.lane.out_batch import Item, OutBatch, Path, SkippedOffsets
from mirror.lane.rules import AbortedFilter, MergeRule, RoutingRules
from mirror.protocol.batches.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, scan, verify
from mirror.protocol.batches.compression import Codec, decompress
from mirror.protocol.batches.legacy import SMALLEST_MESSAGE, last_offset, read_message
from mirror.protocol.batches.records import SMALLEST_RECORD, Record, read_batch, read_records, write_batch
from mirror.protocol.batches.reframe import START, Reframed, Reframer, Resume, Run, Times, note_time

_log = logging.getLogger(__name__)
_NO_MERGE: Final = MergeRule(records=(0, 0, 0, 0, 0), small_bytes=0)
_LARGE_ANYWAY: Final = 4
"""A batch may open into this many times its own size, whatever the limit is."""
_NO_LIMIT: Final = 2**62
_SPLIT_MARGIN: Final = 0.8
"""Part of the limit that a split aims at, because records compress unevenly."""


class BatchRouter:
    """One pass over a partition's part of one response. Used once."""

    def __init__(
        self,
        rules: RoutingRules,
        position: int,
        budget: ByteBudget,
        end: int | None = None,
        room: int = _NO_LIMIT,
    ) -> None:
        self._rules = rules
        self._room = room
        self._merge = rules.merge or _NO_MERGE
        self._budget = budget
        self._end = end
        self._first = position
        self._cursor = position
        self._batches: list[tuple[memoryview, BatchHeader]] = []
        self._records: list[Record] = []
        self._bytes = 0
        self._source_batches = 0
        self._passed: list[tuple[int, SkippedOffsets]] = []
        self._must_reframe = self._is_small = False
        self._codec = 0
        self._made_bytes = 0
        self.items: list[Item] = []
        self.position = position
        """The next source offset to fetch."""
        self.leader_epoch = -1
        """Of the last batch taken, -1 when none was."""
        self.largest = 0
        """Bytes of the largest batch that was looked at."""
        self.work = 0
        """What was opened: a record counts as one, of those that are only re-framed four, of bytes 256."""
        self.is_cut = False
        """Whether the rest was left for later, because `room` is used up."""

    def take(self, records: memoryview, aborted: Sequence[tuple[int, int]], slab: Slab) -> None:
        """Go through the batches. Raises CorruptData, RecordTooLarge and TransformFailed with the source
        offset; `items` and `position` then tell what lies before the trouble."""
        committed = AbortedFilter(aborted) if aborted and self._rules.read_committed else None
        try:
            for start, end, header in scan(records):
                batch = records[start:end]
                self.largest = max(self.largest, end - start)
                if header is None:
                    self._take_legacy(batch)
                elif header.base_offset + header.last_offset_delta >= self.position:
                    if self.work >= self._room:
                        self.is_cut = True
                        break
                    if self._end is not None and header.base_offset >= self._end:
                        if self.position < self._end:
                            self._pass(OffsetClass.COMPACTED, self._end)
                        break
                    verify(batch, header)
                    self._take_batch(batch, header, committed, slab)
            self._flush(slab)
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed):
            self._keep_what_is_good(slab)
            raise
        finally:
            slab.made_bytes += self._made_bytes

    def free(self) -> None:
        """Let go of every batch that was found."""
        for item in self.items:
            if isinstance(item, OutBatch):
                item.free()

    def _keep_what_is_good(self, slab: Slab) -> None:
        try:
            self._flush(slab)
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed) as error:
            _log.debug("the batches before the trouble are in trouble too: %s", error)
        self.position = self._cursor

    def _take_batch(
        self, batch: memoryview, header: BatchHeader, committed: AbortedFilter | None, slab: Slab
    ) -> None:
        if header.base_offset > self.position:
            self._pass(OffsetClass.COMPACTED, header.base_offset)
        after = header.base_offset + header.last_offset_delta + 1
        self.leader_epoch = header.leader_epoch
        if committed is not None:
            offset_class = committed.offset_class(batch, header)
        else:
            offset_class = OffsetClass.CONTROL if header.attributes & CONTROL else None
        if offset_class is None and header.record_count == 0:
            offset_class = OffsetClass.COMPACTED
        if offset_class is None and self._rules.unopened:
            offset_class = self._rules.unopened.get(header.base_offset)
        if offset_class is not None:
            self._pass(offset_class, after)
        elif self._opens(header):
            payload = self._payload(batch, header)
            self.work += header.record_count
            self._join_records(read_records(payload, header), header.codec, len(batch), after, slab)
        else:
            self._join_batches(batch, header, after, slab)

    def _payload(self, batch: memoryview, header: BatchHeader) -> bytes:
        """The batch decompressed. Raises BatchTooLarge, CorruptData."""
        size, count, limit = len(batch), header.record_count, self._rules.opened_bytes
        if count > self._rules.opened_records and count > size // SMALLEST_RECORD:
            raise _too_large(batch, header, f"it holds {count} records")
        if size * _LARGE_ANYWAY > limit:
            limit = size * _LARGE_ANYWAY
        try:
            payload = decompress(header.codec, batch[HEADER_SIZE:], limit)
        except PayloadTooLarge as error:
            raise _too_large(batch, header, error.message) from error
        self.work += count // 4 + len(payload) // 256
        return payload

    def _opens(self, header: BatchHeader) -> bool:
        rules = self._rules
        if rules.opens_records or rules.transforms or header.base_offset < rules.opened_below:
            return True
        if not rules.omitted:
            return False
        return any(header.base_offset <= offset <= header.last_offset for offset in rules.omitted)

    def _take_legacy(self, message: memoryview) -> None:
        if last_offset(message) < self.position:
            return
        limit = min(self._rules.opened_bytes, self._rules.opened_records * SMALLEST_MESSAGE)
        records = read_message(message, max(limit, len(message)))
        self.work += len(records)
        if self._end is not None and records[0].offset >= self._end:
            return
        if records[0].offset > self.position:
            self._pass(OffsetClass.COMPACTED, records[0].offset)
        self._join_records(records, Codec.NONE, len(message), records[-1].offset + 1, None)

    def _pass(self, offset_class: OffsetClass, after: int) -> None:
        passed = SkippedOffsets(offset_class, after - self.position)
        is_behind = self._cursor < self.position
        self.position = after
        if is_behind:
            self._passed.append((after, passed))
        else:
            self.items.append(passed)
            self._cursor = after

    def _join_batches(self, batch: memoryview, header: BatchHeader, after: int, slab: Slab) -> None:
        rules, size, codec = self._rules, len(batch), header.codec
        must = (
            not header.is_dense
            or header.base_offset < self._first
            or size > rules.batch_limit
            or (header.attributes & LOG_APPEND_TIME and rules.keeps_append_time)
            or (codec == Codec.ZSTD and not rules.takes_zstd)
        )
        small = size < self._merge.small_bytes and header.record_count < self._merge.records[codec]
        is_full = self._bytes + size > self._merge.merged_bytes
        if self._cursor < self.position and (self._records or not small or codec != self._codec or is_full):
            self._flush(slab)
        if not small and not must:
            self.position = after
            self._send_unopened(batch, header, slab)
            return
        self._codec = codec
        self._batches.append((batch, header))
        self._bytes += size
        self._source_batches += 1
        self._must_reframe = self._must_reframe or bool(must)
        self._is_small = small
        self.position = after
        if not small:
            self._flush(slab)

    def _join_records(
        self, records: Sequence[Record], codec: int, size: int, after: int, slab: Slab | None
    ) -> None:
        if self._batches or codec != self._codec or self._bytes + size > self._merge.merged_bytes:
            self._flush(slab)
        self._codec = codec
        self._bytes += size
        self._source_batches += 1
        for record in records:
            if record.offset >= self._first:
                self._open(record)
                if self._rules.opens_singly and record.offset < self._rules.opened_below:
                    self.position = record.offset + 1
                    self._flush(slab)
        self.position = after

    def _open(self, record: Record) -> None:
        offset_class = self._rules.omitted.get(record.offset)
        if offset_class is None:
            changed = self._rules.transform(record)
            if changed is not None:
                self._records.append(changed)
                return
            offset_class = OffsetClass.FILTERED
        self._passed.append((record.offset + 1, SkippedOffsets(offset_class, 1)))

    def _flush(self, slab: Slab | None) -> None:
        batches, self._batches = self._batches, []
        records, self._records = self._records, []
        must_reframe, self._must_reframe = self._must_reframe, False
        if records:
            self._send_records(records)
        elif len(batches) == 1 and not must_reframe and slab is not None:
            self._send_unopened(*batches[0], slab, is_small=self._is_small)
        elif batches:
            self._reframe(batches)
        if self._cursor < self.position:
            self.items.extend(self._classes_up_to(self.position, 0))
        self._passed.clear()
        self._bytes = self._source_batches = 0

    def _send_unopened(
        self, batch: memoryview, header: BatchHeader, slab: Slab, *, is_small: bool = False
    ) -> None:
        base, count = header.base_offset, header.record_count
        outgoing = OutBatch(batch, ((base, count),), count, base, base + count)
        outgoing.first_timestamp, outgoing.max_timestamp = header.first_timestamp, header.max_timestamp
        if not header.codec:
            outgoing.payload_bytes = len(batch) - HEADER_SIZE
        outgoing.is_small = is_small
        outgoing.hold(slab)
        self.items.append(outgoing)
        self._cursor = base + count

    @property
    def _codec_to_write(self) -> int:
        """The source's, unless the destination cannot read it."""
        return Codec.LZ4 if self._codec == Codec.ZSTD and not self._rules.takes_zstd else self._codec

    def _reframe(self, batches: Sequence[tuple[memoryview, BatchHeader]]) -> None:
        codec = self._codec_to_write
        reframer = Reframer(codec)
        limit = self._merge.payload_bytes
        for batch, header in batches:
            payload = self._payload(batch, header)
            if len(batch) > self._rules.batch_limit:
                limit = int(self._rules.batch_limit * _SPLIT_MARGIN * len(payload) / len(batch))
            resume: Resume | None = START
            while resume is not None:
                resume = reframer.add(payload, header, self._first, limit, resume)
                if resume is not None:
                    self._send_reframed(reframer)
                    reframer = Reframer(codec)
        if reframer.count:
            self._send_reframed(reframer)

    def _send_reframed(self, reframer: Reframer) -> None:
        made = reframer.finish()
        if len(made.batch) > self._rules.batch_limit:
            self._halve(made.batch, made.runs)
            return
        self._send_made(made)

    def _halve(self, batch: bytearray, runs: Sequence[Run]) -> None:
        header = next(scan(memoryview(batch)))[2]
        assert header is not None, "we write format 2"
        offsets = [first + step for first, count in runs for step in range(count)]
        records = read_batch(memoryview(batch), header)
        self._send_records(
            [record._replace(offset=offset) for record, offset in zip(records, offsets, strict=True)]
        )

    def _written(self, records: Sequence[Record]) -> bytearray:
        try:
            return write_batch(records, self._codec_to_write)
        except Exception:
            if self._rules.transforms:
                self._find_unwritable(records)
            raise

    def _find_unwritable(self, records: Sequence[Record]) -> None:
        """Send what comes before the record that cannot be written. Raises TransformFailed for that one."""
        for number, record in enumerate(records):
            try:
                write_batch([record])
            except Exception as error:
                if number:
                    self._send_records(records[:number])
                self.position = record.offset
                raise self._rules.transform_failed(record.offset, error) from error

    def _send_records(self, records: Sequence[Record]) -> None:
        batch = self._written(records)
        if len(batch) > self._rules.batch_limit:
            if len(records) == 1:
                self.position = records[0].offset
                raise RecordTooLarge(
                    f"the record at offset {records[0].offset} makes a batch of {len(batch)} bytes,"
                    f" the destination takes {self._rules.batch_limit}",
                    offset=records[0].offset,
                    advice="raise max.message.bytes of the destination topic, or let the policy skip it",
                )
            middle = len(records) // 2
            self._send_records(records[:middle])
            self._send_records(records[middle:])
            return
        made = Reframed(batch, runs_of(records), len(records), 0, times_of(records))
        self._send_made(made, Path.RECORDS)

    def _send_made(self, made: Reframed, path: Path = Path.REFRAMED) -> None:
        batch, runs, count = made.batch, made.runs, made.record_count
        after = runs[-1][0] + runs[-1][1]
        outgoing = OutBatch(memoryview(batch), runs, count, self._cursor, after)
        outgoing.first_timestamp, outgoing.max_timestamp, outgoing.by_source = made.times
        outgoing.payload_bytes = made.payload_bytes
        outgoing.path = path
        outgoing.is_small = self._is_small and path is Path.REFRAMED
        outgoing.source_batches, self._source_batches = self._source_batches, 0
        outgoing.source_bytes, self._bytes = self._bytes, 0
        outgoing.charge(self._budget)
        self._made_bytes += len(batch)
        self.items.append(outgoing)
        outgoing.passed = self._classes_up_to(after, count)

    def _classes_up_to(self, after: int, count: int) -> list[SkippedOffsets]:
        """The classes of all offsets from the cursor on that are not among `count` records sent."""
        found = [passed for upto, passed in self._passed if self._cursor < upto <= after]
        rest = after - self._cursor - count - sum(passed.count for passed in found)
        if rest:
            found.append(SkippedOffsets(OffsetClass.COMPACTED, rest))
        self._cursor = after
        return found


def _too_large(batch: memoryview, header: BatchHeader, why: str) -> BatchTooLarge:
    return BatchTooLarge(
        f"the batch of {len(batch)} bytes at offset {header.base_offset} is not opened: {why}",
        offset=header.base_offset,
        advice="raise opened_batch_records or opened_batch_bytes, or let on-rejection put it aside",
    )


def runs_of(records: Sequence[Record]) -> tuple[Run, ...]:
    """Source offsets of records as runs."""
    runs: list[Run] = []
    for record in records:
        if runs and runs[-1][0] + runs[-1][1] == record.offset:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((record.offset, 1))
    return tuple(runs)


def times_of(records: Sequence[Record]) -> Times:
    """Their timestamps; each record counts as a source batch."""
    by_source: list[tuple[int, int]] = []
    for record in records:
        note_time(by_source, record.timestamp, 1)
    newest = max(timestamp for timestamp, _ in by_source)
    return Times(records[0].timestamp, newest, tuple(by_source))
