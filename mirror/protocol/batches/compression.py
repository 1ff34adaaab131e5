"""The five compression codecs of record batches, in the framing that Java clients expect.

Lz4 frames must have independent blocks, because Java rejects linked ones.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import Final

import lz4.frame
import zstandard


class Codec(IntEnum):
    """Compression codecs, with their numbers in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


Buffer = bytes | bytearray | memoryview
_zstd: Final = zstandard.ZstdCompressor(level=3, write_content_size=False)


def compress(codec: int, data: Buffer) -> bytes:
    """Return the compressed records, in the framing that the codec's usual clients write."""
    if codec == Codec.NONE:
        return bytes(data)
    if codec == Codec.LZ4:
        return lz4.frame.compress(data, block_linked=False, store_size=False)
    if codec == Codec.ZSTD:
        return _zstd.compress(data)
    if codec == Codec.GZIP:
        return zlib.compress(data, wbits=31)
    from mirror.protocol.batches import snappy

    return snappy.compress(memoryview(data))
