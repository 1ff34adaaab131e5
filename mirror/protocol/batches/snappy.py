"""Snappy compression in the framing of Kafka clients: Java clients use Xerial's block framing, other clients
no framing."""

from __future__ import annotations

from typing import Final

import cramjam

from mirror.errors import CorruptData, PayloadTooLarge

_MAGIC: Final = b"\x82SNAPPY\x00"
_HEADER: Final = _MAGIC + b"\x00\x00\x00\x01" * 2
_BLOCK: Final = 32 * 1024


def decompress(data: memoryview, limit: int) -> bytes:
    """Return decompressed snappy data. Raises CorruptData, and PayloadTooLarge for more than `limit`
    bytes."""
    try:
        return _decompress(data, limit)
    except cramjam.DecompressionError as error:
        raise CorruptData(f"invalid snappy data: {error}") from error


def _decompress(data: memoryview, limit: int) -> bytes:
    if bytes(data[: len(_MAGIC)]) != _MAGIC or len(data) < len(_HEADER):
        return _bare(data, limit)
    payload = bytearray()
    position = len(_HEADER)
    while position < len(data):
        if bytes(data[position : position + len(_MAGIC)]) == _MAGIC:  # another stream begins
            position += len(_HEADER)
            continue
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if size > len(data) - position:
            raise CorruptData("the compressed data ends inside a snappy block")
        payload += _bare(data[position : position + size], limit - len(payload))
        position += size
    return bytes(payload)


def _bare(data: memoryview, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > limit:
        raise PayloadTooLarge("snappy blocks decompress to more bytes than allowed")
    return bytes(cramjam.snappy.decompress_raw(data))


def compress(data: memoryview) -> bytes:
    """Return the snappy-compressed data in Xerial's framing, which every client reads."""
    out = bytearray(_HEADER)
    for start in range(0, len(data), _BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _BLOCK]))
        out += len(block).to_bytes(4, "big") + block
    return bytes(out)
