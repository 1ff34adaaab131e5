"""Variable-length integers as Kafka writes them: zigzag in records, unsigned in flexible messages.

Seven bits a byte, lowest first, the top bit says that more follow (Protocol Buffers' encoding).
"""

from __future__ import annotations

from typing import Final

from mirror.errors import CorruptData

LONGEST: Final = 10
"""Bytes of the longest 64-bit varint."""


def encode(number: int) -> bytes:
    """Zigzag varint of a signed 64-bit number."""
    return encode_unsigned((number << 1) ^ (number >> 63))


def encode_unsigned(number: int) -> bytes:
    """Plain varint of a number from 0."""
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
    """(signed number, position behind it). Raises CorruptData when it does not end in `data`."""
    number, position = decode_unsigned(data, position)
    return (number >> 1) ^ -(number & 1), position


def decode_unsigned(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """(number, position behind it). Raises CorruptData when it does not end in `data`."""
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
                raise CorruptData("a variable-length number has more than 10 bytes")
    except IndexError:
        raise CorruptData("a variable-length number runs beyond its message") from None


SMALL_LIMIT: Final = 8192
SMALL: Final = tuple(encode(number) for number in range(SMALL_LIMIT))
"""Zigzag varints of 0…8191 (one and two bytes), so that the common ones cost a look-up."""
