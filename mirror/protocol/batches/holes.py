"""Offset ranges without records, and the batches that prove it.

Compaction leaves gaps between batches, and between the records of a batch. A gap is certain only if the log
before and after it was read. Therefore, an `OffsetHole` requires a batch that was read.
"""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offset range [first, next) that a fetched batch covers, with or without records."""

    first: int
    next: int


class OffsetHole:
    """Offsets [first, next) that have no record, as proved by a fetched batch.

    `evidence`: offset range of a batch that follows or contains these offsets, and whose records were read.
    Raises ValueError if the batch does not prove that the offsets have no record.
    """

    __slots__ = ("evidence", "first", "next")

    def __init__(self, first: int, following: int, evidence: Span) -> None:
        is_in_front = following <= evidence.first
        is_inside = evidence.first <= first and following <= evidence.next
        if not (first < following and (is_in_front or is_inside)):
            raise ValueError(
                f"{evidence} does not prove that offsets {first} to {following - 1} have no record"
            )
        self.first = first
        self.next = following
        self.evidence = evidence
