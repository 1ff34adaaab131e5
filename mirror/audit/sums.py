"""Digests of records, and order-insensitive sums over ranges of records. Pure."""

from __future__ import annotations

import hashlib
from itertools import chain
from typing import Any, Final

from mirror.protocol.batches.records import Record
from mirror.protocol.frame import encode_signed

_MASK: Final = 2**64 - 1
_DIGEST_BYTES: Final = 12
_HASH_BYTES: Final = 8
_NULL: Final = encode_signed(-1)


def content_digest(record: Record) -> bytes:
    """Return a digest of key, value and headers; null and empty values differ."""
    found = hashlib.blake2b(encode_signed(len(record.headers)), digest_size=_DIGEST_BYTES)
    for value in chain((record.key, record.value), *record.headers):
        found.update(_NULL if value is None else encode_signed(len(value)) + value)
    return found.digest()


class RangeSum:
    """Checksum of a set of records that does not depend on their order.

    Contains the number of records, the size of their keys and values in bytes, and the sum of their hashes
    modulo 2^64. A hash covers key, value, headers and timestamp.
    """

    __slots__ = ("hash", "payload_bytes", "records")

    def __init__(self) -> None:
        self.records = self.payload_bytes = self.hash = 0

    def add(self, record: Record) -> None:
        """Add a record to the checksum."""
        self.records += 1
        self.payload_bytes += len(record.key or b"") + len(record.value or b"")
        content = content_digest(record) + record.timestamp.to_bytes(8, "big", signed=True)
        found = hashlib.blake2b(content, digest_size=_HASH_BYTES).digest()
        self.hash = (self.hash + int.from_bytes(found, "big")) & _MASK

    def to_json(self) -> dict[str, Any]:
        """Return the checksum as a JSON object, with the hash in hexadecimal."""
        return {"records": self.records, "payload_bytes": self.payload_bytes, "hash": f"{self.hash:016x}"}
