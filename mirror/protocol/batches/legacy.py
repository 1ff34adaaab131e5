"""Decodes messages of formats 0 and 1, which old segments may contain. Brokers since 4.0 can read but not
write these formats.

The records of old messages are always decoded and written in format 2. The value of a compressed message is a
message set; in format 1, inner offsets are relative and the outer offset is that of the last inner message.
Layout: Apache Kafka, `LegacyRecord` and `AbstractLegacyRecordBatch`.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

from mirror.errors import CorruptData
from mirror.protocol.batches.batch import CODEC_MASK, LEGACY_SMALLEST, LOG_APPEND_TIME, LOG_END, OVERHEAD
from mirror.protocol.batches.decompression import LARGEST_PAYLOAD, decompress
from mirror.protocol.batches.records import Record

_HEAD: Final = struct.Struct(">qiIbb")
"""Offset, size, CRC-32 of the remainder, magic, attributes."""
_CHECKED_FROM: Final = 16
NO_TIMESTAMP: Final = -1
SMALLEST_MESSAGE: Final = OVERHEAD + LEGACY_SMALLEST


def last_offset(message: memoryview) -> int:
    """Return the offset of the last record in a complete message of format 0 or 1."""
    return int.from_bytes(message[:8], "big", signed=True)


def verify_message(message: memoryview) -> None:
    """Verify the checksum of a complete message of format 0 or 1. Raises CorruptData."""
    offset, _, checksum, _, _ = _HEAD.unpack_from(message)
    if zlib.crc32(message[_CHECKED_FROM:]) != checksum or not 0 <= offset < LOG_END:
        raise CorruptData(f"message at offset {offset} does not match its checksum")


def read_message(message: memoryview, limit: int = LARGEST_PAYLOAD) -> list[Record]:
    """Return the records of a complete message of format 0 or 1, compressed or not.

    Raises CorruptData, and PayloadTooLarge for more than `limit` decompressed bytes.
    """
    try:
        return _read(message, limit, nested=False)
    except (struct.error, IndexError):
        raise CorruptData(f"message at offset {last_offset(message)} is truncated") from None


def _read(message: memoryview, limit: int, *, nested: bool) -> list[Record]:
    offset, _, _, magic, attributes = _HEAD.unpack_from(message)
    verify_message(message)
    position = _HEAD.size
    timestamp = NO_TIMESTAMP
    if magic == 1:
        (timestamp,) = struct.unpack_from(">q", message, position)
        position += 8
    key, position = _field(message, position)
    value, position = _field(message, position)
    if not attributes & CODEC_MASK:
        return [Record(offset, timestamp, key, value)]
    if nested or value is None:
        raise CorruptData(f"compressed message at offset {offset} contains no message set")
    payload = decompress(attributes & CODEC_MASK, value, limit, is_format_0=magic == 0)
    inner = _inner(memoryview(payload))
    return _placed(inner, offset, magic, timestamp if attributes & LOG_APPEND_TIME else None)


def _inner(data: memoryview) -> list[Record]:
    records: list[Record] = []
    position = 0
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position + 8)
        end = position + OVERHEAD + size
        if size < 0 or end > len(data):
            raise CorruptData("a message set ends inside a message")
        records += _read(data[position:end], 0, nested=True)
        position = end
    if not records:
        raise CorruptData("a compressed message is empty")
    return records


def _placed(inner: list[Record], last: int, magic: int, append_time: int | None) -> list[Record]:
    shift = last - inner[-1].offset if magic == 1 else 0
    return [
        record._replace(
            offset=record.offset + shift, timestamp=record.timestamp if append_time is None else append_time
        )
        for record in inner
    ]


def _field(message: memoryview, position: int) -> tuple[bytes | None, int]:
    (length,) = struct.unpack_from(">i", message, position)
    position += 4
    if length == -1:
        return None, position
    if length < 0 or position + length > len(message):
        raise CorruptData(f"corrupt message at offset {last_offset(message)}: invalid field length {length}")
    return bytes(message[position : position + length]), position + length
