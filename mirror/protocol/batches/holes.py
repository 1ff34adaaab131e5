"""Offsets without a record, and the evidence that they have none.

Compaction leaves gaps between batches and between records of a batch. A gap is certain only if the log on
both sides of it was read, so an `OffsetHole` is constructed from a batch that was read, never from offsets.
"""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets [first, next) in the header of a batch that was read, with or without records."""

    first: int
    next: int


class OffsetHole:
    """Offsets [first, next) without a record.

    `evidence`: span of a batch that follows or contains these offsets, and whose records have been read.
    Raises ValueError if the batch proves nothing about the given offsets.
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
