"""Converts fetched bytes to batches to send and skipped offsets.

Verifies every batch, determines the class of every offset, and chooses how each batch is processed. A batch
is passed through without decompression if nothing in it has to change. A batch is decompressed and framed
again (`reframe`) if it has holes, starts before the lane's position, has append times or is too large, or if
small batches have accumulated.

Merging small batches pays off because a broker spends 35 to 45 microseconds per batch in addition to the cost
of its bytes; sending ten records at a time costs the destination more than merging costs the mirror (`python
-m bench mirror_drain`). A batch that cannot be decompressed is passed through if possible. If an undecodable
batch must be changed, the router makes items of all earlier batches, and stops with an error. No offset gets
a class merely because it remains in a range: if the items do not account for every offset, the router raises
Unaccounted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, RecordTooLarge, TransformFailed, UndecodableBatch
from mirror.lane.ledger import OffsetClass, SkippedOffsets, Unaccounted, compacted
from mirror.lane.memory import ByteBudget, ReceiveBuffer
from mirror.lane.out_batch import Item, OutBatch, Path
from mirror.lane.rules import AbortedFilter, MergeRule, Refusal, RoutingRules
from mirror.protocol.batches.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, scan, verify
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.holes import OffsetHole, Span
from mirror.protocol.batches.legacy import last_offset
from mirror.protocol.batches.opener import BatchOpener
from mirror.protocol.batches.records import Record, read_batch, write_batch
from mirror.protocol.batches.reframe import START, Reframed, Reframer, Run, StopPoint, runs_of, times_of
from mirror.protocol.batches.smallest import write_smallest

_NO_MERGE: Final = MergeRule(records=(0, 0, 0, 0, 0), small_bytes=0)
_NO_LIMIT: Final = 2**62
_SPLIT_MARGIN: Final = 0.8
"""Fraction of the batch limit at which a batch is split, because records compress unevenly."""


class BatchRouter:
    """Processes the part of one fetch response for one partition. Not reusable."""

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
        self._opener = BatchOpener(rules.opened_bytes, rules.opened_records, position)
        self._budget = budget
        self._end = _NO_LIMIT if end is None else end
        self._first = position
        self._cursor = position
        """Offset below which `items` account for every offset."""
        self._batches: list[tuple[memoryview, BatchHeader, bool]] = []
        """Batches not in `items` yet, each with True if it must be changed; empty if `_records` is used."""
        self._records: list[Record] = []
        self._bytes = 0
        self._source_batches = 0
        self._skipped: list[SkippedOffsets] = []
        """Skipped offsets that are not in `items` yet."""
        self._codec = 0
        self._is_small = False
        self._made_bytes = 0
        self._slab: ReceiveBuffer | None = None
        self.items: list[Item] = []
        self.position = position
        """Next source offset to fetch."""
        self.leader_epoch = -1
        """Leader epoch of the last processed batch; -1 if there is none."""
        self._epoch = -1
        """Leader epoch of the current batch; -1 for messages of formats 0 and 1."""
        self.largest = 0
        """Size of the largest batch processed."""
        self.is_cut = False
        """True if the rest of the response was left, because the work reached `room`."""

    @property
    def work(self) -> int:
        """Cost of decompressing and decoding batches so far; see `BatchOpener.work`."""
        return self._opener.work

    def take(self, records: memoryview, aborted: Sequence[tuple[int, int]], slab: ReceiveBuffer) -> None:
        """Process the batches of a response.

        Raises CorruptData, BatchTooLarge, RecordTooLarge and TransformFailed with the source offset; `items`
        and `position` then cover everything before the first error.
        """
        committed = AbortedFilter(aborted) if aborted and self._rules.read_committed else None
        self._slab = slab
        try:
            for start, end, header in scan(records):
                batch = records[start:end]
                self.largest = max(self.largest, end - start)
                if header is None:
                    if not self._take_legacy(batch):
                        break
                elif header.base_offset + header.last_offset_delta >= self.position:
                    if self._opener.work >= self._room:
                        self.is_cut = True
                        break
                    if header.base_offset >= self._end:
                        self._pass_hole(self._end, header.span)
                        break
                    verify(batch, header)
                    self._take_batch(batch, header, committed)
            self._flush()
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed):
            self._flush()  # an error in the batches taken before comes first
            raise
        finally:
            slab.made_bytes += self._made_bytes

    def free(self) -> None:
        """Free the buffers of all items."""
        for item in self.items:
            if isinstance(item, OutBatch):
                item.free()

    def _take_batch(self, batch: memoryview, header: BatchHeader, committed: AbortedFilter | None) -> None:
        if header.base_offset > self.position:
            self._pass_hole(header.base_offset, header.span)
        after = header.base_offset + header.last_offset_delta + 1
        self.leader_epoch = self._epoch = header.leader_epoch
        if committed is not None:
            offset_class = committed.offset_class(batch, header)
        else:
            offset_class = OffsetClass.CONTROL if header.attributes & CONTROL else None
        if offset_class is None and self._rules.unopened:
            offset_class = self._refused(self._rules.unopened, after - 1)
        if offset_class is not None:
            self._pass(SkippedOffsets(offset_class, self.position, after))
        elif header.record_count == 0:
            self._take_empty(batch, header)
        elif self._opens(header):
            records = self._opener.records(batch, header)
            self._join_records(records, header.codec, len(batch), header.span)
        else:
            self._join_batches(batch, header, after)

    def _take_empty(self, batch: memoryview, header: BatchHeader) -> None:
        """Process a batch from which compaction has removed all records."""
        if len(batch) > HEADER_SIZE:
            self._opener.records(batch, header)
        self._pass_hole(header.last_offset + 1, header.span)

    def _opens(self, header: BatchHeader) -> bool:
        rules = self._rules
        if rules.opens_records or rules.transforms:
            return True
        if rules.opened_below < 0 and not rules.omitted:  # the common case: avoids a call per batch
            return False
        return rules.is_opened(header.base_offset, header.last_offset, header.leader_epoch)

    def _refused(self, refusals: Mapping[int, Refusal], offset: int) -> OffsetClass | None:
        """Return the class of an offset in the current batch if the record is rejected, or None."""
        refusal = refusals.get(offset)
        return None if refusal is None or not refusal.concerns(self._epoch) else refusal.offset_class

    def _take_legacy(self, message: memoryview) -> bool:
        """Process a message of format 0 or 1; return False if it is at or after the end offset."""
        last = last_offset(message)
        if last < self.position:
            return True
        self._epoch = -1
        offset_class = self._refused(self._rules.unopened, last)
        if offset_class is not None:
            self._pass(SkippedOffsets(offset_class, self.position, last + 1))
            return True
        records = self._opener.message_records(message)
        span = Span(records[0].offset, last + 1)
        is_behind = span.first >= self._end
        if is_behind or span.first > self.position:
            self._pass_hole(min(span.first, self._end), span)
        if not is_behind:
            self._join_records(records, Codec.NONE, len(message), span)
        return not is_behind

    def _pass_hole(self, following: int, evidence: Span) -> None:
        """Skip the offsets before `following`, which have no record. The batch `evidence` shows that."""
        if self.position < following:
            self._pass(compacted(OffsetHole(self.position, following, evidence)))

    def _pass(self, skipped: SkippedOffsets) -> None:
        if self._cursor < self.position:
            self._skipped.append(skipped)
        else:
            self.items.append(skipped)
            self._cursor = skipped.next
        self.position = skipped.next

    def _join_batches(self, batch: memoryview, header: BatchHeader, after: int) -> None:
        rules, size, codec = self._rules, len(batch), header.codec
        must = bool(
            not header.is_dense
            or header.base_offset < self._first
            or size > rules.batch_limit
            or (header.attributes & LOG_APPEND_TIME and rules.keeps_append_time)
            or (codec == Codec.ZSTD and not rules.takes_zstd)
        )
        small = size < self._merge.small_bytes and header.record_count < self._merge.records[codec]
        is_full = self._bytes + size > self._merge.merged_bytes
        if self._cursor < self.position and (self._records or not small or codec != self._codec or is_full):
            self._flush()
        if not small and not must:
            self.position = after
            self._send_unopened(batch, header)
            return
        self._codec = codec
        self._batches.append((batch, header, must))
        self._bytes += size
        self._source_batches += 1
        self._is_small = small
        self.position = after
        if not small:
            self._flush()

    def _join_records(self, records: Sequence[Record], codec: int, size: int, span: Span) -> None:
        if self._batches or codec != self._codec or self._bytes + size > self._merge.merged_bytes:
            self._flush()
        self._codec = codec
        self._bytes += size
        self._source_batches += 1
        for record in records:
            offset = record.offset
            if offset >= self.position:
                self._pend_hole(offset, span)
                self._open(record)
                self.position = offset + 1
                if self._rules.opens_singly and offset < self._rules.opened_below:
                    self._flush()
        self._pend_hole(span.next, span)

    def _pend_hole(self, following: int, span: Span) -> None:
        if self.position < following:
            self._skipped.append(compacted(OffsetHole(self.position, following, span)))
            self.position = following

    def _open(self, record: Record) -> None:
        offset, skipped = record.offset, self._skipped
        offset_class = self._refused(self._rules.omitted, offset)
        if offset_class is None:
            changed = self._rules.transform(record)
            if changed is not None:
                self._records.append(changed)
                return
            offset_class = OffsetClass.FILTERED
        if skipped and skipped[-1].next == offset and skipped[-1].offset_class is offset_class:
            skipped[-1].next = offset + 1
        else:
            skipped.append(SkippedOffsets(offset_class, offset, offset + 1))

    def _flush(self) -> None:
        """Make items of all batches processed so far. After an error, make items of all batches before the
        error."""
        batches, self._batches = self._batches, []
        records, self._records = self._records, []
        try:
            self._send_skipped()
            if records:
                self._send_records(records)
            elif len(batches) == 1 and not batches[0][2]:
                self._send_unopened(batches[0][0], batches[0][1], is_small=self._is_small)
            elif batches:
                self._reframe(batches)
            self._send_skipped()
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed):
            self._send_skipped()
            self._skipped = []
            self.position = self._cursor
            raise
        finally:
            self._bytes = self._source_batches = 0
        if self._skipped or self._cursor != self.position:
            raise Unaccounted(f"cannot account for offsets {self._cursor} to {self.position - 1}")

    def _send_skipped(self) -> None:
        """Make items of the skipped offsets that directly follow the last item."""
        sent = 0
        for skipped in self._skipped:
            if skipped.first != self._cursor:
                break
            self.items.append(skipped)
            self._cursor = skipped.next
            sent += 1
        del self._skipped[:sent]

    def _send_unopened(self, batch: memoryview, header: BatchHeader, *, is_small: bool = False) -> None:
        assert self._slab is not None, "batches taken have a slab"
        base, count = header.base_offset, header.record_count
        outgoing = OutBatch(batch, ((base, count),), count, base, base + count)
        outgoing.first_timestamp, outgoing.max_timestamp = header.first_timestamp, header.max_timestamp
        if not header.codec:
            outgoing.payload_bytes = len(batch) - HEADER_SIZE
        outgoing.is_small = is_small
        outgoing.hold(self._slab)
        self.items.append(outgoing)
        self._cursor = base + count

    @property
    def _codec_to_write(self) -> int:
        """Codec of the source, or LZ4 if the destination does not support zstd."""
        return Codec.LZ4 if self._codec == Codec.ZSTD and not self._rules.takes_zstd else self._codec

    def _reframe(self, batches: Sequence[tuple[memoryview, BatchHeader, bool]]) -> None:
        self._bytes = self._source_batches = 0
        reframer = Reframer(self._codec_to_write)
        for batch, header, must in batches:
            try:
                reframer = self._add(reframer, batch, header)
            except (BatchTooLarge, UndecodableBatch):
                self._send_reframed(reframer)
                if must:
                    raise
                reframer = Reframer(self._codec_to_write)
                self._send_skipped()
                self._send_unopened(batch, header, is_small=True)
        self._send_reframed(reframer)

    def _add(self, reframer: Reframer, batch: memoryview, header: BatchHeader) -> Reframer:
        """Add a whole batch and return the reframer to continue with. Raises BatchTooLarge,
        UndecodableBatch, without adding the batch."""
        former, made, codec = reframer, list[Reframer](), self._codec_to_write
        payload = self._opener.payload(batch, header)
        limit = self._merge.payload_bytes
        if len(batch) > self._rules.batch_limit:
            limit = int(self._rules.batch_limit * _SPLIT_MARGIN * len(payload) / len(batch))
        try:
            if not former.count or former.add(payload, header, self._first, limit) is not None:
                resume: StopPoint | None = START
                while resume is not None:
                    made.append(Reframer(codec))
                    resume = made[-1].add(payload, header, self._first, limit, resume)
        except CorruptData as error:
            raise self._opener.undecodable(header.span, error) from error
        if made:
            self._send_reframed(former)
        self._bytes += len(batch)
        self._source_batches += 1
        for reframer in made[:-1]:
            self._send_reframed(reframer)
        return made[-1] if made else former

    def _send_reframed(self, reframer: Reframer) -> None:
        if reframer.holes:
            skipped = [*self._skipped, *map(compacted, reframer.holes)]
            self._skipped = sorted(skipped, key=attrgetter("first"))
        if not reframer.count:
            self._send_skipped()
            return
        made = reframer.finish()
        if len(made.batch) > self._rules.batch_limit:
            self._halve(made.batch, made.runs)
        else:
            self._send_made(made)

    def _halve(self, batch: bytearray, runs: Sequence[Run]) -> None:
        header = next(scan(memoryview(batch)))[2]
        assert header is not None, "Headrace writes format 2"
        offsets = [first + step for first, count in runs for step in range(count)]
        most = self._rules.opened_records + header.record_count
        records = read_batch(memoryview(batch), header, most=most)
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
        """Raise TransformFailed for the record that cannot be encoded; send the records before it."""
        for number, record in enumerate(records):
            try:
                write_batch([record])
            except Exception as error:
                if number:
                    self._send_records(records[:number])
                raise self._rules.transform_failed(record.offset, error) from error

    def _send_records(self, records: Sequence[Record]) -> None:
        batch, limit = self._written(records), self._rules.batch_limit
        if len(batch) > limit and len(records) > 1:
            middle = len(records) // 2
            self._send_records(records[:middle])
            self._send_records(records[middle:])
            return
        if len(batch) > limit:
            batch = write_smallest(records[0], self._codec_to_write, limit)
        made = Reframed(batch, runs_of(records), len(records), 0, times_of(records))
        self._send_made(made, Path.RECORDS)

    def _send_made(self, made: Reframed, path: Path = Path.REFRAMED) -> None:
        batch, runs, count = made.batch, made.runs, made.record_count
        after = runs[-1][0] + runs[-1][1]
        outgoing = OutBatch(memoryview(batch), runs, count, self._cursor, after)
        outgoing.passed = self._pass_to(after, count)
        outgoing.first_timestamp, outgoing.max_timestamp, outgoing.by_source = made.times
        outgoing.payload_bytes = made.payload_bytes
        outgoing.path = path
        outgoing.is_small = self._is_small and path is Path.REFRAMED
        outgoing.source_batches, self._source_batches = self._source_batches, 0
        outgoing.source_bytes, self._bytes = self._bytes, 0
        outgoing.charge(self._budget)
        self._made_bytes += len(batch)
        self.items.append(outgoing)

    def _pass_to(self, after: int, count: int) -> list[SkippedOffsets] | None:
        """Move the cursor to `after` and return the skipped offsets before it.

        Raises Unaccounted unless the skipped offsets and `count` records cover the range.
        """
        passed = [skipped for skipped in self._skipped if skipped.first < after]
        unknown = after - self._cursor - count - sum(skipped.count for skipped in passed)
        if unknown:
            raise Unaccounted(f"cannot account for {unknown} offsets from {self._cursor} to {after - 1}")
        del self._skipped[: len(passed)]
        self._cursor = after
        return passed or None
