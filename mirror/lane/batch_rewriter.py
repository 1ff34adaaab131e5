"""Rewrites record batches that cannot be copied unchanged.

Batches are framed again (`reframe`) if they have holes, start before the lane's position, have append times
or are too large, or if small batches have accumulated. Records are decoded and encoded one by one if
transforms or rejections concern them, and if they come from messages of formats 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, UndecodableBatch
from mirror.lane.ledger import OffsetClass, SkippedOffsets, compacted
from mirror.lane.out_batch import BatchOrigin, OutBatch, Path, RoutedItems
from mirror.lane.rules import NO_MERGE, RoutingRules, refused
from mirror.protocol.batches.batch import BatchHeader, scan
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.holes import Span
from mirror.protocol.batches.legacy import last_offset
from mirror.protocol.batches.opener import BatchOpener
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.batches.reframe import START, Reframed, Reframer, Run, StopPoint, runs_of, times_of
from mirror.protocol.batches.smallest import write_smallest

_SPLIT_MARGIN: Final = 0.8
"""Fraction of the batch size limit at which a batch is split, because records compress unevenly."""


class BatchRewriter:
    """Rewrites those batches of one Fetch response that must change, and adds the results to `routed`.

    `first`: offset of the first record to copy.
    """

    def __init__(self, rules: RoutingRules, first: int, routed: RoutedItems) -> None:
        self._rules = rules
        self._merge = rules.merge or NO_MERGE
        self._first = first
        self._routed = routed
        self._opener = BatchOpener(rules.opened_bytes, rules.opened_records, first)
        self._records: list[Record] = []
        """Decoded records that are not in `routed` yet."""
        self._codec = 0
        self._is_small = False
        self._bytes = 0
        self._source_batches = 0
        """Size and number of the source batches that are not in `routed` yet."""

    @property
    def work(self) -> int:
        """Cost of decompressing and decoding batches so far; see `BatchOpener.work`."""
        return self._opener.work

    @property
    def is_pending(self) -> bool:
        """True if merged source batches are not in `routed` yet."""
        return bool(self._records) or self._source_batches > 0

    def records(self, batch: memoryview, header: BatchHeader) -> list[Record]:
        """Decode a record batch. Raises BatchTooLarge, UndecodableBatch."""
        return self._opener.records(batch, header)

    def take_message(self, message: memoryview, end: int) -> bool:
        """Handle a message of format 0 or 1. Return False if it is at or after the offset `end`."""
        last, routed = last_offset(message), self._routed
        if last < routed.position:
            return True
        offset_class = refused(self._rules.unopened, last, -1)
        if offset_class is not None:
            routed.skip(SkippedOffsets(offset_class, routed.position, last + 1))
            return True
        records = self._opener.message_records(message)
        span = Span(records[0].offset, last + 1)
        is_behind = span.first >= end
        if is_behind or span.first > routed.position:
            routed.skip_hole(min(span.first, end), span)
        if not is_behind:
            self.join(records, Codec.NONE, len(message), span, -1)
        return not is_behind

    def join(self, records: Sequence[Record], codec: int, size: int, span: Span, leader_epoch: int) -> None:
        """Collect the records of a source batch, to be encoded together. `size`: bytes of the batch. `span`:
        offsets that it covers."""
        routed = self._routed
        if codec != self._codec or self._bytes + size > self._merge.merged_bytes:
            self.flush()
        self._codec = codec
        self._bytes += size
        self._source_batches += 1
        for record in records:
            offset = record.offset
            if offset >= routed.position:
                routed.note_hole(offset, span)
                self._take(record, leader_epoch)
                routed.position = offset + 1
                if self._rules.opens_singly and offset < self._rules.opened_below:
                    self.flush()
        routed.note_hole(span.next, span)

    def _take(self, record: Record, leader_epoch: int) -> None:
        offset, skipped = record.offset, self._routed.skipped
        offset_class = refused(self._rules.omitted, offset, leader_epoch)
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

    def flush(self) -> None:
        """Encode the collected records. After an error, `routed` contains all records before the error."""
        records, self._records = self._records, []
        try:
            with self._routed:
                if records:
                    self._send_records(records)
        finally:
            self._bytes = self._source_batches = 0

    def reframe(
        self, batches: Sequence[tuple[memoryview, BatchHeader, bool]], codec: int, *, is_small: bool
    ) -> None:
        """Merge or split batches without decoding their records. Each batch comes with a flag: whether it
        must be changed. Undecodable batches without the flag remain unchanged. Raises BatchTooLarge,
        UndecodableBatch, RecordTooLarge."""
        self._codec, self._is_small = codec, is_small
        reframer = Reframer(self._codec_to_write)
        try:
            for batch, header, must in batches:
                try:
                    reframer = self._add(reframer, batch, header)
                except (BatchTooLarge, UndecodableBatch):
                    self._send_reframed(reframer)
                    if must:
                        raise
                    reframer = Reframer(self._codec_to_write)
                    self._routed.send_skipped()
                    self._routed.add_unopened(batch, header, is_small=True)
            self._send_reframed(reframer)
        finally:
            self._bytes = self._source_batches = 0

    @property
    def _codec_to_write(self) -> int:
        """Return the compression codec of the source, or LZ4 if the destination does not support zstd."""
        return Codec.LZ4 if self._codec == Codec.ZSTD and not self._rules.takes_zstd else self._codec

    def _add(self, reframer: Reframer, batch: memoryview, header: BatchHeader) -> Reframer:
        """Add a whole batch, and return the reframer for the next batch. After BatchTooLarge or
        UndecodableBatch, the batch was not added."""
        former, reframers, codec = reframer, list[Reframer](), self._codec_to_write
        payload = self._opener.payload(batch, header)
        limit = self._merge.payload_bytes
        if len(batch) > self._rules.batch_limit:
            limit = int(self._rules.batch_limit * _SPLIT_MARGIN * len(payload) / len(batch))
        try:
            if not former.count or former.add(payload, header, self._first, limit) is not None:
                resume: StopPoint | None = START
                while resume is not None:
                    reframers.append(Reframer(codec))
                    resume = reframers[-1].add(payload, header, self._first, limit, resume)
        except CorruptData as error:
            raise self._opener.undecodable(header.span, error) from error
        if reframers:
            self._send_reframed(former)
        self._bytes += len(batch)
        self._source_batches += 1
        for reframer in reframers[:-1]:
            self._send_reframed(reframer)
        return reframers[-1] if reframers else former

    def _send_reframed(self, reframer: Reframer) -> None:
        routed = self._routed
        if reframer.holes:
            skipped = [*routed.skipped, *map(compacted, reframer.holes)]
            routed.skipped = sorted(skipped, key=attrgetter("first"))
        if not reframer.count:
            routed.send_skipped()
            return
        reframed = reframer.finish()
        if len(reframed.batch) > self._rules.batch_limit:
            self._halve(reframed.batch, reframed.runs)
        else:
            self._send_batch(reframed)

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
        """Find the record that cannot be encoded. Sends the records before it, and raises TransformFailed."""
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
        if len(batch) > self._rules.record_limit:
            batch = write_smallest(records[0], self._codec_to_write, self._rules.record_limit)
        reframed = Reframed(batch, runs_of(records), len(records), 0, times_of(records))
        self._send_batch(reframed, Path.RECORDS)

    def _send_batch(self, reframed: Reframed, path: Path = Path.REFRAMED) -> None:
        batch, runs, count, routed = reframed.batch, reframed.runs, reframed.record_count, self._routed
        first, after = routed.cursor, runs[-1][0] + runs[-1][1]
        outgoing = OutBatch(memoryview(batch), runs, count, first, after)
        outgoing.first_timestamp, outgoing.max_timestamp, by_source = reframed.times
        outgoing.made_from = BatchOrigin(
            path,
            routed.pass_to(after, count),
            by_source,
            self._source_batches,
            self._bytes,
            reframed.payload_bytes,
        )
        self._source_batches = self._bytes = 0
        outgoing.is_small = self._is_small and path is Path.REFRAMED
        routed.add_made(outgoing)
