"""Decompression of record batches, compatible with brokers and Java clients.

Pitfalls: Java clients write snappy in Xerial's framing, other clients write it without framing; a batch may
contain several gzip members or zstd frames. Decompression is bounded, so that a few damaged bytes cannot
exhaust the memory.
"""

from __future__ import annotations

import zlib
from typing import Final

import lz4.frame
import zstandard

from mirror.errors import CorruptData, PayloadTooLarge
from mirror.protocol.batches.compression import Buffer, Codec
from mirror.protocol.batches.lz4_header import corrected

LARGEST_PAYLOAD: Final = 64 * 2**20
"""Default limit on the decompressed size of a batch."""
_LZ4_FRAME_HEADER: Final = 14
_LZ4_HAS_SIZE: Final = 0x08
_LZ4_GREATEST_RATIO: Final = 255
"""Maximum lz4 expansion ratio; a small frame that fits even at this ratio needs no bounded reader."""
_ZSTD_STEP: Final = 2 * 1024
"""Compressed bytes per read. A block of 4 bytes can expand to 128 KiB, so a read yields at most 64 MiB."""
_GZIP_STEP: Final = 4 * 1024
"""Compressed bytes of further gzip members per read, which yields at most 1,032 times as much: 4 MiB."""
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_unzstd: Final = zstandard.ZstdDecompressor()


def decompress(codec: int, data: Buffer, limit: int = LARGEST_PAYLOAD, *, is_format_0: bool = False) -> bytes:
    """Return the decompressed records of a batch.

    Raises CorruptData for invalid data, and PayloadTooLarge for more than `limit` bytes of output.
    `is_format_0`: the data is from a format 0 message, whose lz4 frames have a wrong header checksum.
    """
    try:
        if codec == Codec.NONE:
            return bytes(data)
        if codec == Codec.LZ4:
            return _from_lz4(corrected(bytes(data)) if is_format_0 else data, limit)
        if codec == Codec.ZSTD:
            return _from_zstd(data, limit)
        if codec == Codec.GZIP:
            return _from_gzip(data, limit)
        if codec == Codec.SNAPPY:
            from mirror.protocol.batches import snappy  # the library takes 1.5 MiB, and is rarely needed

            return snappy.decompress(memoryview(data), limit)
    except (RuntimeError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise CorruptData(f"invalid {Codec(codec).name.lower()} data: {error}") from error
    raise CorruptData(f"unknown compression codec {codec}")


def _from_lz4(data: Buffer, limit: int) -> bytes:
    if len(data) > _LZ4_FRAME_HEADER and data[4] & _LZ4_HAS_SIZE:
        claimed = int.from_bytes(data[6:14], "little")
        if claimed > len(data) * _LZ4_GREATEST_RATIO:
            raise CorruptData("an lz4 frame is too short for the content size in its header")
        if claimed > limit:
            raise PayloadTooLarge(f"an lz4 frame decompresses to more than {limit} bytes")
    if len(data) * _LZ4_GREATEST_RATIO <= limit:
        return lz4.frame.decompress(data)
    reader = lz4.frame.LZ4FrameDecompressor()
    payload = reader.decompress(data, max_length=limit)
    if not reader.eof:
        if len(payload) >= limit:
            raise PayloadTooLarge(f"an lz4 frame decompresses to more than {limit} bytes")
        raise CorruptData("truncated lz4 frame")
    return payload


def _from_zstd(data: Buffer, limit: int) -> bytes:
    """Decompress all zstd frames; a skippable frame yields nothing."""
    reader = _unzstd.decompressobj()
    view = memoryview(data)
    parts, size, start = [], 0, 0
    while start < len(view):
        part = reader.decompress(view[start : start + _ZSTD_STEP])
        start = min(start + _ZSTD_STEP, len(view))
        parts.append(part)
        size += len(part)
        if size > limit:
            raise PayloadTooLarge(f"zstd frames decompress to more than {limit} bytes")
        if reader.eof:
            start -= len(reader.unused_data)
            if start == len(view):
                return part if len(parts) == 1 else b"".join(parts)
            reader = _unzstd.decompressobj()
    raise CorruptData("truncated zstd frame")


def _from_gzip(data: Buffer, limit: int) -> bytes:
    reader = zlib.decompressobj(wbits=31)
    payload = reader.decompress(data, limit)
    if not reader.eof:
        if len(payload) >= limit:
            raise PayloadTooLarge(f"a gzip stream decompresses to more than {limit} bytes")
        raise CorruptData("truncated gzip stream")
    if not reader.unused_data:
        return payload
    return payload + _further_members(reader.unused_data, limit - len(payload))


def _further_members(data: bytes, limit: int) -> bytes:
    """Decompress the gzip members after the first; ignores other trailing data, as Java does."""
    view = memoryview(data)
    payload = bytearray()
    start = 0
    while data.startswith(_GZIP_MAGIC, start):
        reader = zlib.decompressobj(wbits=31)
        while not reader.eof:
            if start == len(view):
                raise CorruptData("truncated gzip stream")
            payload += reader.decompress(view[start : start + _GZIP_STEP])
            start = min(start + _GZIP_STEP, len(view))
            if len(payload) > limit:
                raise PayloadTooLarge(f"gzip members decompress to more than {limit} bytes")
        start -= len(reader.unused_data)
    return bytes(payload)
