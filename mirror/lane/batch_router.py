"""Splits fetched bytes into batches to send and skipped offsets.

Verifies every batch, determines the class of every offset, and chooses how each batch is processed. A batch
is passed through without decompression if nothing in it has to change; `BatchRewriter` processes the others.

Merging small batches pays off because a broker spends 35 to 45 microseconds per batch in addition to the cost
of its bytes; sending ten records at a time costs the destination more than merging costs the mirror (`python
-m bench mirror_drain`). A batch that cannot be decompressed is passed through if possible. If an undecodable
batch must be changed, the router makes items of all earlier batches, and stops with an error. No offset gets
a class merely because it remains in a range: if the items do not account for every offset, the router raises
Unaccounted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, RecordTooLarge, TransformFailed
from mirror.lane.batch_rewriter import BatchRewriter
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.ledger import OffsetClass, SkippedOffsets
from mirror.lane.memory import ReceiveBuffer
from mirror.lane.out_batch import Item, OutBatch, RoutedItems
from mirror.lane.rules import NO_MERGE, AbortedFilter, RoutingRules, refused
from mirror.protocol.batches.batch import CONTROL, HEADER_SIZE, LOG_APPEND_TIME, BatchHeader, scan, verify
from mirror.protocol.batches.compression import Codec

_NO_LIMIT: Final = 2**62


class BatchRouter:
    """Processes the records of one partition in one Fetch response. Not reusable."""

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
        self._merge = rules.merge or NO_MERGE
        self._end = _NO_LIMIT if end is None else end
        self._first = position
        self._routed = RoutedItems(position, budget)
        self._rewriter: BatchRewriter | None = None
        self._batches: list[tuple[memoryview, BatchHeader, bool]] = []
        """Batches that are not routed yet, each with True if it must be changed."""
        self._bytes = 0
        self._codec = 0
        self._is_small = False
        """Total size and codec of `_batches`, and whether they are small enough to be merged."""
        self.leader_epoch = -1
        """Leader epoch of the last processed batch; -1 if there is none."""
        self.largest = 0
        """Size of the largest batch processed."""
        self.is_cut = False
        """True if batches of the response remain unprocessed, because `work` reached the limit `room`."""

    @property
    def items(self) -> list[Item]:
        """Batches to send and skipped offsets, in source order."""
        return self._routed.items

    @property
    def position(self) -> int:
        """Next source offset to fetch."""
        return self._routed.position

    @property
    def work(self) -> int:
        """Cost of decompressing and decoding so far, in the unit of `BatchOpener.work`."""
        return 0 if self._rewriter is None else self._rewriter.work

    def take(self, records: memoryview, aborted: Sequence[tuple[int, int]], slab: ReceiveBuffer) -> None:
        """Route the record batches of the Fetch response.

        Raises CorruptData, BatchTooLarge, RecordTooLarge and TransformFailed with the source offset. `items`
        and `position` then include all batches before the error.
        """
        committed = AbortedFilter(aborted) if aborted and self._rules.read_committed else None
        routed = self._routed
        routed.slab = slab
        try:
            for start, end, header in scan(records):
                batch = records[start:end]
                self.largest = max(self.largest, end - start)
                if header is None:
                    if not self._take_legacy(batch):
                        break
                elif header.base_offset + header.last_offset_delta >= routed.position:
                    rewriter = self._rewriter
                    if self._room <= 0 or (rewriter is not None and rewriter.work >= self._room):
                        self.is_cut = True
                        break
                    verify(batch, header)
                    if header.base_offset >= self._end:
                        routed.skip_hole(self._end, header.span)
                        break
                    self._take_batch(batch, header, committed)
            self._flush()
        except (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed):
            self._flush()  # an error in an earlier batch comes first
            raise

    def free(self) -> None:
        """Release the receive buffers of all routed batches."""
        for item in self.items:
            if isinstance(item, OutBatch):
                item.free()

    def _take_batch(self, batch: memoryview, header: BatchHeader, committed: AbortedFilter | None) -> None:
        routed = self._routed
        if header.base_offset > routed.position:
            routed.skip_hole(header.base_offset, header.span)
        after = header.base_offset + header.last_offset_delta + 1
        self.leader_epoch = header.leader_epoch
        if committed is not None:
            offset_class = committed.offset_class(batch, header)
        else:
            offset_class = OffsetClass.CONTROL if header.attributes & CONTROL else None
        if offset_class is None and self._rules.unopened:
            offset_class = refused(self._rules.unopened, after - 1, header.leader_epoch)
        if offset_class is not None:
            routed.skip(SkippedOffsets(offset_class, routed.position, after))
        elif header.record_count == 0:
            if len(batch) > HEADER_SIZE:
                self._required_rewriter().records(batch, header)
            routed.skip_hole(after, header.span)  # compaction has removed all records
        elif self._opens(header):
            self._open(batch, header)
        else:
            self._join_batches(batch, header, after)

    def _opens(self, header: BatchHeader) -> bool:
        rules = self._rules
        if rules.opens_records or rules.transforms:
            return True
        if rules.opened_below < 0 and not rules.omitted:  # the common case, without a call per batch
            return False
        return rules.is_opened(header.base_offset, header.last_offset, header.leader_epoch)

    def _required_rewriter(self) -> BatchRewriter:
        if self._rewriter is None:
            self._rewriter = BatchRewriter(self._rules, self._first, self._routed)
        return self._rewriter

    def _open(self, batch: memoryview, header: BatchHeader) -> None:
        rewriter = self._required_rewriter()
        records = rewriter.records(batch, header)
        if self._batches:
            self._flush()
        rewriter.join(records, header.codec, len(batch), header.span, header.leader_epoch)

    def _take_legacy(self, message: memoryview) -> bool:
        """Route a message of format 0 or 1. Return False if it is at or after the end offset."""
        if self._batches:
            self._flush()
        return self._required_rewriter().take_message(message, self._end)

    def _join_batches(self, batch: memoryview, header: BatchHeader, after: int) -> None:
        rules, routed, size, codec = self._rules, self._routed, len(batch), header.codec
        must = bool(
            not header.is_dense
            or header.base_offset < self._first
            or (size > rules.batch_limit and (header.record_count > 1 or size > rules.record_limit))
            or (header.attributes & LOG_APPEND_TIME and rules.keeps_append_time)
            or (codec == Codec.ZSTD and not rules.takes_zstd)
        )
        small = size < self._merge.small_bytes and header.record_count < self._merge.records[codec]
        if routed.cursor < routed.position:
            is_full = self._bytes + size > self._merge.merged_bytes
            if not small or codec != self._codec or is_full or not self._batches:
                self._flush()
        routed.position = after
        if not small and not must:
            routed.add_unopened(batch, header)
            return
        self._codec = codec
        self._batches.append((batch, header, must))
        self._bytes += size
        self._is_small = small
        if not small:
            self._flush()

    def _flush(self) -> None:
        """Route all batches that are still being merged. After an error, route those before the error."""
        batches, self._batches, self._bytes = self._batches, [], 0
        if self._rewriter is not None and self._rewriter.is_pending:
            self._rewriter.flush()
            return
        with self._routed as routed:
            if len(batches) == 1 and not batches[0][2]:
                routed.add_unopened(batches[0][0], batches[0][1], is_small=self._is_small)
            elif batches:
                self._required_rewriter().reframe(batches, self._codec, is_small=self._is_small)
