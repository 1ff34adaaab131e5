"""Record batches as a broker sees them, read with kafka-python's module, never with `mirror.protocol`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kafka.record.util import calc_crc32c

HEADER_BYTES: Final = 61
OVERHEAD_BYTES: Final = 12
"""Base offset and length, which the length field does not count."""
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
APPEND_TIME: Final = 0x08
CODEC: Final = 0x07
ZSTD: Final = 4
SNAPPY: Final = 2
_PLACE: Final = struct.Struct(">qii")
_MAGIC_AT: Final = 16
_NEWEST_MAGIC: Final = 2
_OLD_TIME: Final = 1_000
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_LAST_DELTA_AT: Final = 23
_MAX_TIMESTAMP_AT: Final = 35
_COUNT_AT: Final = 57

COMMIT: Final = 1
ABORT: Final = 0


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """Batch with its position in a log."""

    data: bytes
    base: int
    last: int
    epoch: int
    attributes: int
    producer: int
    producer_epoch: int
    sequence: int
    max_timestamp: int
    appended_ms: int
    """Time at which the broker stored it."""

    @property
    def count(self) -> int:
        """Number of offsets in its range."""
        return self.last - self.base + 1

    @property
    def is_control(self) -> bool:
        """Return whether it is a transaction marker."""
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        """Return whether it belongs to a transaction."""
        return bool(self.attributes & TRANSACTIONAL)


def view(data: bytes | memoryview) -> Any:
    """Return kafka-python's reader of the batch in these bytes."""
    return DefaultRecordBatch(data)


def whole_batches(data: bytes) -> list[bytes] | None:
    """Return the batches in these bytes; None if the last is truncated or a length is impossible."""
    found = []
    position = 0
    while position < len(data):
        if len(data) - position < HEADER_BYTES:
            return None
        (length,) = struct.unpack_from(">i", data, position + 8)
        end = position + OVERHEAD_BYTES + length
        if length < HEADER_BYTES - OVERHEAD_BYTES or end > len(data):
            return None
        found.append(data[position:end])
        position = end
    return found


def stored(data: bytes, base: int, epoch: int, now_ms: int) -> StoredBatch:
    """Return the batch as stored in the log, with the broker's base offset and leader epoch."""
    placed = bytearray(data)
    if data[_MAGIC_AT] < _NEWEST_MAGIC:
        last = base + len(records_of(data) or []) - 1
        struct.pack_into(">q", placed, 0, last)
        return StoredBatch(bytes(placed), base, last, epoch, 0, -1, -1, -1, -1, now_ms)
    _PLACE.pack_into(placed, 0, base, len(data) - OVERHEAD_BYTES, epoch)
    read = view(data)
    return StoredBatch(
        bytes(placed),
        base,
        base + read.last_offset_delta,
        epoch,
        read.attributes,
        read.producer_id,
        read.producer_epoch,
        read.base_sequence,
        read.max_timestamp,
        now_ms,
    )


def restamped(data: bytes, *, attributes: int, max_timestamp: int) -> bytes:
    """Return the batch with other attributes and maximum timestamp, and a new checksum."""
    changed = bytearray(data)
    struct.pack_into(">h", changed, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", changed, _CRC_AT, calc_crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
    return bytes(changed)


def marker(producer: int, epoch: int, kind: int, now_ms: int) -> bytes:
    """Return the control batch that ends a transaction: `COMMIT` or `ABORT`."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    data = build([(now_ms, key, value, [])], producer=(producer, epoch, -1), transactional=True)
    return restamped(data, attributes=TRANSACTIONAL | CONTROL, max_timestamp=now_ms)


Content = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""Timestamp in epoch milliseconds, key, value, headers."""


def build(
    records: Sequence[Content],
    *,
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> bytes:
    """Return a batch as a producer sends it. `producer`: id, epoch, base sequence."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=2**30,
    )
    for number, (timestamp, key, value, headers) in enumerate(records):
        builder.append(number, timestamp, key, value, list(headers))
    return bytes(builder.build())


def with_gaps(data: bytes, offsets: Sequence[int], span: int) -> bytes:
    """Return the batch after compaction: its records at the given offsets within `span`.

    The batch must have as many records as there are offsets, at consecutive places.
    """
    read = view(data)
    records = [(r.timestamp, r.key, r.value, r.headers) for r in read]
    builder = DefaultRecordBatchBuilder(2, read.compression_type, 0, -1, -1, -1, 2**30)
    for place, (timestamp, key, value, headers) in zip(offsets, records, strict=True):
        builder.append(place, timestamp, key, value, headers)
    holed = bytearray(builder.build())
    struct.pack_into(">i", holed, _LAST_DELTA_AT, span - 1)
    return restamped(bytes(holed), attributes=read.attributes, max_timestamp=read.max_timestamp)


def emptied(data: bytes, places: Sequence[int]) -> bytes:
    """Return the batch after compaction with only the records at these places, or without any."""
    read = view(data)
    records = list(read)
    kept = [records[place] for place in places]
    if kept:
        rest = build([(r.timestamp, r.key, r.value, r.headers) for r in kept], codec=read.compression_type)
        return with_gaps(rest, places, read.last_offset_delta + 1)
    header = bytearray(data[:HEADER_BYTES])
    struct.pack_into(">i", header, _COUNT_AT, 0)
    return resized(bytes(header), b"")


def resized(data: bytes, payload: bytes) -> bytes:
    """Return the batch with another payload of any content."""
    changed = bytearray(data[:HEADER_BYTES] + payload)
    struct.pack_into(">i", changed, OVERHEAD_BYTES - 4, len(changed) - OVERHEAD_BYTES)
    read = view(data)
    return restamped(bytes(changed), attributes=read.attributes, max_timestamp=read.max_timestamp)


def undecodable(data: bytes) -> bytes:
    """Return the batch with a valid checksum and an undecodable payload."""
    return resized(data, bytes(byte ^ 0x5A for byte in data[HEADER_BYTES:]))


def old_message(key: bytes | None, value: bytes | None, magic: int = 0) -> bytes:
    """Return an uncompressed message of format 0 or 1."""
    builder = LegacyRecordBatchBuilder(magic, 0, 2**30)
    builder.append(0, timestamp=_OLD_TIME, key=key, value=value)
    return bytes(builder.build())


def old_messages(
    contents: Sequence[tuple[bytes | None, bytes | None]], first: int, magic: int, codec: int
) -> bytes:
    """Return messages with these keys and values as a broker stores them from offset `first` on: one message
    around all if compressed. Offsets inside of such a message are absolute in format 0, relative in 1."""
    builder = LegacyRecordBatchBuilder(magic, codec, 2**30)
    for place, (key, value) in enumerate(contents):
        builder.append(place if codec and magic else first + place, _OLD_TIME + place, key, value)
    return bytes(builder.build())


def magic_of(data: bytes) -> int:
    """Return the format of a batch or message."""
    return data[_MAGIC_AT]


def records_of(data: bytes) -> list[Any] | None:
    """Return the records of a batch as a consumer reads them; None if it cannot."""
    if data[_MAGIC_AT] < _NEWEST_MAGIC:
        return list(MemoryRecords(data).next_batch())
    read = view(data)
    if not read.records_count:
        return []
    try:
        found = list(read)
    except Exception:  # noqa: BLE001 - decompressors raise exceptions of any kind
        return None
    return found if len(found) == read.records_count else None
