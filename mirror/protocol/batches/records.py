"""Decodes the records of a batch of format 2.

Decoding is slow, and used only where the contents of records matter: transforms, comparison with the end of
the destination log, `headrace verify`. Layout of a record: Apache Kafka, `DefaultRecord`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mirror.errors import CorruptData, PayloadTooLarge
from mirror.protocol.batches.batch import HEADER_SIZE, LOG_APPEND_TIME, BatchHeader
from mirror.protocol.batches.decompression import LARGEST_PAYLOAD, decompress
from mirror.protocol.batches.holes import Span
from mirror.protocol.frame import decode_signed

Header = tuple[bytes, bytes | None]


class Record(NamedTuple):
    """A Kafka record. `timestamp` is epoch milliseconds; a null key or value is None, an empty one b""."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def content(self) -> tuple[int, bytes | None, bytes | None, tuple[Header, ...]]:
        """All fields of the record except the offset; a mirror must preserve these fields."""
        return self[1:]

    @property
    def payload_bytes(self) -> int:
        """Number of bytes in key and value."""
        return len(self.key or b"") + len(self.value or b"")


SMALLEST_RECORD: Final = 7
"""Minimum size of a record, without key and value."""

_SMALLEST_PART: Final = 2
"""Minimum size of a header, with an empty name and no value. A record may have many headers."""

MOST_PARTS: Final = 250_000
"""Default limit on the records and headers of a batch."""

JOB_PARTS: Final = 2_000_000
"""Limit in audits and jobs: a batch may take about 300 MB and ten seconds, because no lane waits."""


def parts_of(batch: memoryview, most: int) -> int:
    """Return the maximum number of records and headers in a batch: `most`, or more if the batch is large."""
    own = len(batch) // _SMALLEST_PART
    return own if own > most else most


def read_batch(
    batch: memoryview, header: BatchHeader, limit: int = LARGEST_PAYLOAD, most: int = MOST_PARTS
) -> list[Record]:
    """Return the records of a complete batch.

    Raises CorruptData, and PayloadTooLarge for more than `limit` bytes or `most` records and headers.
    """
    parts = parts_of(batch, most)
    check_count(header, parts)
    return read_records(decompress(header.codec, batch[HEADER_SIZE:], limit), header, parts)


def check_count(header: BatchHeader, most: int) -> None:
    """Check that a batch has at most `most` records. Raises PayloadTooLarge."""
    if header.record_count > most:
        raise PayloadTooLarge(f"the batch contains too many records: {header.record_count}")


def read_records(payload: bytes, header: BatchHeader, most: int = MOST_PARTS) -> list[Record]:
    """Return the records of a batch's decompressed payload.

    Raises CorruptData on a mismatch with the header, PayloadTooLarge above `most` records and headers.
    """
    check_count(header, most)
    room = most - header.record_count
    if header.record_count * SMALLEST_RECORD > len(payload):
        raise CorruptData(f"batch at offset {header.base_offset} claims {header.record_count} records")
    stamped = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    records: list[Record] = []
    position = 0
    for _ in range(header.record_count):
        length, position = decode_signed(payload, position)
        end = position + length
        if length < 0 or end > len(payload):
            raise CorruptData(f"invalid record length {length} in batch at offset {header.base_offset}")
        delta, position = decode_signed(payload, position + 1)
        place, position = decode_signed(payload, position)
        key, position = _field(payload, position, end)
        value, position = _field(payload, position, end)
        headers, position = _headers(payload, position, end, room)
        room -= len(headers)
        if position != end:
            raise CorruptData(f"a record of the batch at offset {header.base_offset} has a wrong length")
        timestamp = header.base_timestamp + delta if stamped is None else stamped
        records.append(Record(header.base_offset + place, timestamp, key, value, headers))
    if position != len(payload):
        raise CorruptData(f"batch at offset {header.base_offset} has trailing bytes after its records")
    return records


def check_order(records: Sequence[Record], span: Span) -> None:
    """Check that the offsets of records increase, and lie in the span of the batch. Raises CorruptData."""
    expected = span.first
    for record in records:
        if record.offset < expected:
            raise CorruptData(f"records of the batch at offset {span.first} are not in offset order")
        expected = record.offset + 1
    if expected > span.next:
        raise CorruptData(f"the batch at offset {span.first} has a record beyond its last offset")


def _field(payload: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_signed(payload, position)
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise CorruptData(f"a field has an invalid length of {length} bytes")
    return payload[position : position + length], position + length


def _headers(payload: bytes, position: int, end: int, room: int) -> tuple[tuple[Header, ...], int]:
    count, position = decode_signed(payload, position)
    if count == 0:
        return (), position
    if not 0 <= count <= end - position:
        raise CorruptData(f"a record has an invalid header count of {count}")
    if count > room:
        raise PayloadTooLarge(f"a record has too many headers: {count}")
    headers: list[Header] = []
    for _ in range(count):
        key, position = _field(payload, position, end)
        if key is None:
            raise CorruptData("a header has a null name")
        value, position = _field(payload, position, end)
        headers.append((key, value))
    return tuple(headers), position
