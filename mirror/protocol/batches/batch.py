"""Finds and verifies record batches of format 2 in fetched bytes, and replaces their producer ids.

The checksum (CRC-32C) covers everything from the attributes on. Base offset, length and leader epoch precede
the attributes, so brokers and the mirror can renumber a batch at almost no cost. The mirror otherwise changes
only the producer identity: the destination deduplicates by (producer id, epoch, sequence), and the source's
identity is invalid there. Layout: Apache Kafka, `DefaultRecordBatch`.

     0 base offset          8 length (of what follows)   12 leader epoch      16 magic
    17 checksum            21 attributes                 23 last offset delta 27 base timestamp
    35 max timestamp       43 producer id                51 producer epoch    53 base sequence
    57 number of records   61 records, compressed according to the attributes
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from mirror.errors import CorruptData
from mirror.protocol.batches.checksum import correct
from mirror.protocol.batches.holes import Span
from mirror.protocol.frame import LARGEST_FRAME

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_SIZE: Final = HEADER.size
OVERHEAD: Final = 12
"""Size of the fields base offset and length, which the length does not include."""
MAGIC_AT: Final = 16
_LENGTH_AT: Final = 8
_LENGTH: Final = struct.Struct(">i")
_CHECKSUM_AT: Final = 17
CHECKED_FROM: Final = 21
"""First byte covered by the checksum."""
LEGACY_SMALLEST: Final = 14
"""Minimum length of a message of format 0: checksum, magic, attributes, two empty lengths."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_IDENTITY_BITS: Final = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON

NO_PRODUCER: Final = -1
NO_SEQUENCE: Final = -1
LOG_END: Final = 2**62
"""Offsets from this limit on are invalid: the checksum does not cover the base offset."""
SEQUENCE_LIMIT: Final = 2**31
"""The sequence after `SEQUENCE_LIMIT - 1` is 0."""


class BatchHeader:
    """The 61-byte header of a record batch. Timestamps are epoch milliseconds, -1 if absent."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    def __init__(self, data: bytes | bytearray | memoryview, position: int = 0) -> None:
        (
            self.base_offset,
            self.length,
            self.leader_epoch,
            self.magic,
            self.checksum,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = HEADER.unpack_from(data, position)

    @property
    def last_offset(self) -> int:
        """Offset of the last record of the original batch; compaction may have removed the record."""
        return self.base_offset + self.last_offset_delta

    @property
    def span(self) -> Span:
        """Offset range of the original batch, from its first to its last record, before compaction."""
        return Span(self.base_offset, self.base_offset + self.last_offset_delta + 1)

    @property
    def first_timestamp(self) -> int:
        """Timestamp of the first record of the original batch, or the maximum timestamp if the broker has
        replaced the first (log append time, or a delete horizon of the log cleaner)."""
        base = self.base_timestamp
        is_newest = self.attributes & (LOG_APPEND_TIME | DELETE_HORIZON) or not 0 <= base < self.max_timestamp
        return self.max_timestamp if is_newest else base

    @property
    def codec(self) -> int:
        """Compression codec, see `compression.Codec`."""
        return self.attributes & CODEC_MASK

    @property
    def is_dense(self) -> bool:
        """True if the offsets of the batch have no gaps."""
        return self.record_count == self.last_offset_delta + 1


class ProducerStamp(NamedTuple):
    """Producer id and epoch, with which brokers detect duplicates. Without an id, the epoch is -1."""

    producer_id: int
    epoch: int
    transactional: bool = False


def scan(records: memoryview) -> Iterator[tuple[int, int, BatchHeader | None]]:
    """Yield (start, end, header) of every complete batch, in order; header is None for formats 0 and 1.

    Stops at an incomplete batch at the end, because brokers truncate responses at the byte limit. Raises
    CorruptData for impossible lengths and formats. Does not verify checksums: see `verify`.
    """
    position, size = 0, len(records)
    while size - position > MAGIC_AT:
        (length,) = _LENGTH.unpack_from(records, position + _LENGTH_AT)
        end = position + OVERHEAD + length
        magic = records[position + MAGIC_AT]
        if magic == 2:
            if length < HEADER_SIZE - OVERHEAD:
                raise CorruptData(f"a batch has an invalid length of {length} bytes")
            if end > size:
                return
            yield position, end, BatchHeader(records, position)
        elif magic < 2:
            if length < LEGACY_SMALLEST:
                raise CorruptData(f"a message has an invalid length of {length} bytes")
            if end > size:
                return
            yield position, end, None
        else:
            raise CorruptData(f"unsupported batch format {magic}; the latest is 2")
        position = end


def first_size(records: memoryview) -> int:
    """Return the size in bytes of the first batch, complete or not; 0 if its length field is missing. Raises
    CorruptData for a length that no response can have."""
    if len(records) < OVERHEAD:
        return 0
    (length,) = _LENGTH.unpack_from(records, _LENGTH_AT)
    if not 0 <= length <= LARGEST_FRAME:
        raise CorruptData(f"a batch has an invalid length of {length} bytes")
    return OVERHEAD + int(length)


def verify(batch: memoryview, header: BatchHeader) -> None:
    """Verify the checksum and counts of a complete batch. Raises CorruptData with the batch's offset.

    Call this before `stamp`, which adjusts the checksum only for its own changes.
    """
    if crc32c(batch[CHECKED_FROM:]) != header.checksum:
        raise CorruptData(f"batch at offset {header.base_offset} does not match its checksum")
    if not 0 <= header.record_count <= header.last_offset_delta + 1 or not 0 <= header.base_offset < LOG_END:
        raise CorruptData(
            f"batch at offset {header.base_offset} claims {header.record_count} records"
            f" up to offset delta {header.last_offset_delta}"
        )


_IDENTITY: Final = struct.Struct(">qhi")
_SHORT: Final = struct.Struct(">h")
_CHECKSUM: Final = struct.Struct(">I")
_ZERO_OFFSET: Final = bytes(8)


def stamp(batch: memoryview, attributes: int, identity: ProducerStamp, sequence: int) -> None:
    """Set the producer id, sequence and base offset 0 of a verified batch in place, with its checksum.

    Clears attributes that a client may not send (log append time, control, delete horizon) and sets the
    transactional bit according to `identity`. `attributes`: attributes of the batch.
    """
    before = crc32c(batch[CHECKED_FROM:HEADER_SIZE])
    batch[0:8] = _ZERO_OFFSET
    attributes &= ~_IDENTITY_BITS
    if identity.transactional:
        attributes |= TRANSACTIONAL
    _SHORT.pack_into(batch, CHECKED_FROM, attributes)
    _IDENTITY.pack_into(batch, 43, identity.producer_id, identity.epoch, sequence)
    (checksum,) = _CHECKSUM.unpack_from(batch, _CHECKSUM_AT)
    after = crc32c(batch[CHECKED_FROM:HEADER_SIZE])
    checksum = correct(checksum, before, after, len(batch) - HEADER_SIZE)
    _CHECKSUM.pack_into(batch, _CHECKSUM_AT, checksum)


def seal(batch: memoryview) -> None:
    """Compute the checksum of a batch and write it into the batch."""
    _CHECKSUM.pack_into(batch, _CHECKSUM_AT, crc32c(batch[CHECKED_FROM:]))


def assemble(
    payload: bytes | bytearray, *, codec: int, base_timestamp: int, max_timestamp: int, count: int
) -> bytearray:
    """Build a batch around a payload of records, maybe compressed. It has no offset gaps or producer id."""
    length = HEADER_SIZE - OVERHEAD + len(payload)
    times = (base_timestamp, max_timestamp)
    header = HEADER.pack(0, length, -1, 2, 0, codec, count - 1, *times, NO_PRODUCER, -1, NO_SEQUENCE, count)
    batch = bytearray().join((header, payload))
    seal(memoryview(batch))
    return batch


def next_sequence(sequence: int, count: int) -> int:
    """Return the base sequence of the batch that follows a batch of `count` records."""
    return (sequence + count) % SEQUENCE_LIMIT
