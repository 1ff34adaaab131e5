"""Variable-length integers of the Kafka protocol: zigzag in records, unsigned in flexible messages.

Seven bits per byte, least significant group first; the top bit marks continuation (as in Protocol Buffers).
"""

from __future__ import annotations

from typing import Final

from mirror.errors import CorruptData

LONGEST: Final = 10
"""Maximum size in bytes of a 64-bit varint."""


def encode(number: int) -> bytes:
    """Return the zigzag varint of a signed 64-bit number."""
    return encode_unsigned((number << 1) ^ (number >> 63))


def encode_unsigned(number: int) -> bytes:
    """Return the varint of a non-negative number."""
    if number < 1 << 7:
        return bytes((number,))
    if number < 1 << 14:
        return bytes((number & 0x7F | 0x80, number >> 7))
    if number < 1 << 21:
        return bytes((number & 0x7F | 0x80, number >> 7 & 0x7F | 0x80, number >> 14))
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def decode(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return (signed number, position after it). Raises CorruptData if the number is truncated."""
    number, position = decode_unsigned(data, position)
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Return (number, position after it). Raises CorruptData if the number is truncated."""
    number = shift = 0
    try:
        while True:
            byte = data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number, position
            shift += 7
            if shift >= LONGEST * 7:
                raise CorruptData("a varint has more than 10 bytes")
    except IndexError:
        raise CorruptData("a message ends inside a varint") from None


SMALL_LIMIT: Final = 8192
SMALL: Final = tuple(encode(number) for number in range(SMALL_LIMIT))
"""Precomputed zigzag varints of the common numbers 0 to 8191 (one or two bytes)."""
