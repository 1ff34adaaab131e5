"""Repairs the header checksum of lz4 frames in format 0 messages.

Kafka's first lz4 writer computed the checksum over the magic number as well (KAFKA-3160). Java skips the
check for format 0; the lz4 library always checks. The checksum is the second byte of xxHash32 of the
descriptor. Sources: lz4's "Frame Format Description", and xxHash's "fast digest algorithm" for fewer than 16
bytes.
"""

from __future__ import annotations

from typing import Final

_DESCRIPTOR_AT: Final = 4
_SHORTEST: Final = 7
"""Size of a header without content size and dictionary."""
_HAS_SIZE: Final = 0x08
_HAS_DICTIONARY: Final = 0x01
_SIZE_BYTES: Final = 8
_DICTIONARY_BYTES: Final = 4
_MASK: Final = 0xFFFFFFFF
_PRIME_1: Final = 2654435761
_PRIME_2: Final = 2246822519
_PRIME_3: Final = 3266489917
_PRIME_4: Final = 668265263
_PRIME_5: Final = 374761393


def corrected(frame: bytes) -> bytes:
    """Correct the header checksum of an lz4 frame, and return the frame. Other data is returned unchanged."""
    if len(frame) < _SHORTEST:
        return frame
    flags = frame[_DESCRIPTOR_AT]
    end = _DESCRIPTOR_AT + 2
    end += _SIZE_BYTES if flags & _HAS_SIZE else 0
    end += _DICTIONARY_BYTES if flags & _HAS_DICTIONARY else 0
    right = bytes((_short_hash(frame[_DESCRIPTOR_AT:end]) >> 8 & 0xFF,))
    return frame if frame[end : end + 1] == right else frame[:end] + right + frame[end + 1 :]


def _short_hash(data: bytes) -> int:
    """Return the xxHash32, with seed 0, of fewer than 16 bytes."""
    found = _PRIME_5 + len(data)
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        found = found + int.from_bytes(data[at : at + 4], "little") * _PRIME_3 & _MASK
        found = (found << 17 | found >> 15) * _PRIME_4 & _MASK
    for byte in data[whole:]:
        found = found + byte * _PRIME_5 & _MASK
        found = (found << 11 | found >> 21) * _PRIME_1 & _MASK
    found = (found ^ found >> 15) * _PRIME_2 & _MASK
    found = (found ^ found >> 13) * _PRIME_3 & _MASK
    return found ^ found >> 16
