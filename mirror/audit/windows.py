"""Windows of event time, and order-insensitive sums of the records in each. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from mirror.protocol.batches.records import Record
from mirror.protocol.varint import encode

WINDOW_MS: Final = 600_000
_MASK: Final = 2**64 - 1
_DIGEST_BYTES: Final = 12
_NULL: Final = encode(-1)


def window_of(timestamp: int, window_ms: int = WINDOW_MS) -> int:
    """Return the start of the window that contains a timestamp; -1 for records without one."""
    return timestamp - timestamp % window_ms if timestamp >= 0 else -1


def content_digest(record: Record) -> bytes:
    """Return a digest of key, value and headers; null and empty differ."""
    found = hashlib.blake2b(encode(len(record.headers)), digest_size=_DIGEST_BYTES)
    for value in chain((record.key, record.value), *record.headers):
        found.update(_NULL if value is None else encode(len(value)) + value)
    return found.digest()


def record_hash(record: Record) -> int:
    """Return a hash of 64 bits of key, value, headers and timestamp."""
    place = record.timestamp.to_bytes(8, "big", signed=True)
    return int.from_bytes(hashlib.blake2b(content_digest(record) + place, digest_size=8).digest(), "big")


class WindowSum(NamedTuple):
    """Number of records, bytes of their keys and values, and sum of their hashes modulo 2^64."""

    records: int = 0
    payload_bytes: int = 0
    hash: int = 0

    def plus(self, other: WindowSum) -> WindowSum:
        """Return the sum of both."""
        return WindowSum(
            self.records + other.records,
            self.payload_bytes + other.payload_bytes,
            (self.hash + other.hash) & _MASK,
        )


def sum_of(records: Sequence[Record]) -> WindowSum:
    """Return the sum over records."""
    return WindowSum(
        len(records),
        sum(len(record.key or b"") + len(record.value or b"") for record in records),
        sum(record_hash(record) for record in records) & _MASK,
    )


@dataclass(frozen=True)
class WindowSums:
    """Sums of one side by start of the window. Memory grows with the number of windows, not of records."""

    window_ms: int
    by_start: dict[int, WindowSum]

    def add(self, records: Sequence[Record]) -> None:
        """Add records of any windows."""
        for record in records:
            start = window_of(record.timestamp, self.window_ms)
            self.by_start[start] = self.by_start.get(start, WindowSum()).plus(sum_of((record,)))
