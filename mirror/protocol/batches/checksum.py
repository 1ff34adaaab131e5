"""Adjusts a CRC-32C (Castagnoli) checksum after a change of the first bytes, without reading the rest.

A CRC is linear. If two messages differ only at the start, the difference of their checksums is the difference
for the starts, advanced by the number n of the bytes that follow. Advancing is a multiplication by x^(8n)
modulo the polynomial, precomputed in tables by the digits of n (zlib's `crc32_combine` by Mark Adler uses the
same method). The producer's checksum thus remains valid for all unchanged bytes, and the destination still
detects bytes that were damaged in the mirror's memory.
"""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78
"""The polynomial in reflected form: the highest power is the lowest bit."""
_DIGIT_BITS: Final = 5
_DIGIT_MASK: Final = (1 << _DIGIT_BITS) - 1

Operator = list[int]
"""A linear map of 32 bits: images of the 16 values of each of the 8 nibbles, lowest first."""


def correct(checksum: int, before: int, after: int, following: int) -> int:
    """Return the CRC-32C of a message after a change of its first bytes.

    `before`, `after`: checksums of the changed bytes alone; `following`: number of unchanged bytes after
    them.
    """
    difference, place = before ^ after, 0
    while following and difference:
        digit = following & _DIGIT_MASK
        if digit:
            difference = _apply(_operators(place)[digit], difference)
        following >>= _DIGIT_BITS
        place += 1
    return checksum ^ difference


def _apply(table: Operator, bits: int) -> int:
    return (
        table[bits & 15]
        ^ table[16 | bits >> 4 & 15]
        ^ table[32 | bits >> 8 & 15]
        ^ table[48 | bits >> 12 & 15]
        ^ table[64 | bits >> 16 & 15]
        ^ table[80 | bits >> 20 & 15]
        ^ table[96 | bits >> 24 & 15]
        ^ table[112 | bits >> 28]
    )


_known: list[list[Operator]] = []


def _operators(place: int) -> list[Operator]:
    """Return the linear maps for the digit of n at `place`, one for each value of the digit. Each map
    advances a checksum by the number of zero bytes that the digit stands for."""
    while len(_known) <= place:
        if _known:
            step = _then(_known[-1][_DIGIT_MASK], _known[-1][1])
        else:
            step = _operator([_zero_byte(1 << bit) for bit in range(32)])
        found = [_operator([1 << bit for bit in range(32)]), step]
        while len(found) <= _DIGIT_MASK:
            found.append(_then(found[-1], step))
        _known.append(found)
    return _known[place]


def _zero_byte(bits: int) -> int:
    for _ in range(8):
        bits = bits >> 1 ^ (_POLYNOMIAL if bits & 1 else 0)
    return bits


def _operator(images: list[int]) -> Operator:
    """Return the linear map on 32 bits that maps each single bit to its given value, lowest bit first."""
    table: Operator = []
    for nibble in range(0, 32, 4):
        values = [0]
        for image in images[nibble : nibble + 4]:
            values += [value ^ image for value in values]
        table += values
    return table


def _then(first: Operator, second: Operator) -> Operator:
    return _operator([_apply(second, _apply(first, 1 << bit)) for bit in range(32)])
