"""Compresses a record at a higher level if its batch is too large at the usual level.

A producer may use a higher level, so its batch may fit where a batch of Headrace with the same record does
not.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard

from mirror.errors import RecordTooLarge
from mirror.protocol.batches.batch import HEADER_SIZE, assemble
from mirror.protocol.batches.compression import Codec, compress
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record

_LARGEST_BATCH: Final = 4 * 2**20
"""Size in bytes above which no higher compression level is tried.

zstd compresses 2 to 3 MB per second at such a level, and no other lane is served in this time.
"""
_ZSTD_LEVEL: Final = 19
_LZ4_LEVEL: Final = 12
_GZIP_LEVEL: Final = 9


def write_smallest(record: Record, codec: int, limit: int) -> bytearray:
    """Return a batch of at most `limit` bytes with one record.

    The batch is compressed at a high level, or uncompressed if that is smaller.

    Raises RecordTooLarge with the record's offset.
    """
    plain = write_batch([record])
    batch = _compressed(record, codec, plain) if len(plain) <= _LARGEST_BATCH else plain
    if len(plain) < len(batch):
        batch = plain
    if len(batch) <= limit:
        return batch
    raise RecordTooLarge(
        f"the record at offset {record.offset} takes a batch of {len(batch)} bytes,"
        f" but the destination accepts {limit}",
        offset=record.offset,
        advice="raise max.message.bytes of the destination topic, or change on-rejection",
    )


def _compressed(record: Record, codec: int, plain: bytearray) -> bytearray:
    payload = bytes(plain[HEADER_SIZE:])
    if codec == Codec.ZSTD:
        payload = zstandard.ZstdCompressor(level=_ZSTD_LEVEL, write_content_size=False).compress(payload)
    elif codec == Codec.GZIP:
        payload = zlib.compress(payload, _GZIP_LEVEL, wbits=31)
    elif codec == Codec.LZ4:
        payload = lz4.frame.compress(
            payload, compression_level=_LZ4_LEVEL, block_linked=False, store_size=False
        )
    else:
        payload = compress(codec, payload)
    times = record.timestamp
    return assemble(payload, codec=codec, base_timestamp=times, max_timestamp=times, count=1)
