"""Decompresses and decodes record batches within limits. Errors name the offsets of the batch."""

from __future__ import annotations

from typing import Final

from mirror.errors import BatchTooLarge, CorruptData, PayloadTooLarge, UndecodableBatch
from mirror.protocol.batches.batch import HEADER_SIZE, BatchHeader
from mirror.protocol.batches.decompression import decompress
from mirror.protocol.batches.holes import Span
from mirror.protocol.batches.legacy import SMALLEST_MESSAGE, last_offset, read_message, verify_message
from mirror.protocol.batches.records import SMALLEST_RECORD, Record, check_order, parts_of, read_records

_LARGE_ANYWAY: Final = 4
"""Multiple of its own size to which a batch may always decompress."""


class BatchOpener:
    """Decompresses and decodes batches within the limits `most_bytes` and `most_records`.

    Record headers count as records. A batch whose own size is larger may exceed the limits. `first`: offset
    of the first record to copy.
    """

    __slots__ = ("_first", "_most_bytes", "_most_records", "work")

    def __init__(self, most_bytes: int, most_records: int, first: int) -> None:
        self._most_bytes = most_bytes
        self._most_records = most_records
        self._first = first
        self.work = 0
        """Cost so far: 1 per decoded record or header, 1 per 4 decompressed records, and 1 per 256 bytes."""

    def payload(self, batch: memoryview, header: BatchHeader) -> bytes:
        """Decompress a record batch. Raises BatchTooLarge, UndecodableBatch."""
        size, count, limit = len(batch), header.record_count, self._most_bytes
        if count > self._most_records and count > size // SMALLEST_RECORD:
            raise self._too_large(batch, header.span, f"it contains {count} records")
        if size * _LARGE_ANYWAY > limit:
            limit = size * _LARGE_ANYWAY
        try:
            payload = decompress(header.codec, batch[HEADER_SIZE:], limit)
        except PayloadTooLarge as error:
            raise self._too_large(batch, header.span, error.message) from error
        except CorruptData as error:
            raise self.undecodable(header.span, error) from error
        self.work += count // 4 + len(payload) // 256
        return payload

    def records(self, batch: memoryview, header: BatchHeader) -> list[Record]:
        """Decode a record batch. Raises BatchTooLarge, UndecodableBatch."""
        payload = self.payload(batch, header)
        try:
            records = read_records(payload, header, parts_of(batch, self._most_records))
            check_order(records, header.span)
        except PayloadTooLarge as error:
            raise self._too_large(batch, header.span, error.message) from error
        except CorruptData as error:
            raise self.undecodable(header.span, error) from error
        self.work += header.record_count + sum([len(record.headers) for record in records])
        return records

    def message_records(self, message: memoryview) -> list[Record]:
        """Decode a message of format 0 or 1 into its records, at least one.

        Raises BatchTooLarge, UndecodableBatch; CorruptData for a wrong checksum.
        """
        verify_message(message)
        limit = min(self._most_bytes, self._most_records * SMALLEST_MESSAGE)
        last = last_offset(message)
        span = Span(last, last + 1)  # the first offset is inside the message
        try:
            records = read_message(message, max(limit, len(message)))
            check_order(records, Span(records[0].offset, last + 1))
        except PayloadTooLarge as error:
            raise self._too_large(message, span, error.message) from error
        except CorruptData as error:
            raise self.undecodable(span, error) from error
        self.work += len(records)
        return records

    def undecodable(self, span: Span, error: CorruptData) -> UndecodableBatch:
        """Return the error for a batch whose records cannot be decoded."""
        return UndecodableBatch(
            f"cannot decode the batch at offset {span.first}: {error.message}",
            offset=max(span.first, self._first),
            last_offset=span.next - 1,
            advice="set on-rejection to dead-letter or skip",
        )

    def _too_large(self, batch: memoryview, span: Span, why: str) -> BatchTooLarge:
        return BatchTooLarge(
            f"the batch of {len(batch)} bytes at offset {span.first} is too large to open: {why}",
            offset=max(span.first, self._first),
            last_offset=span.next - 1,
            advice="raise opened_batch_records or opened_batch_bytes, or set on-rejection to dead-letter",
        )
