"""Offsets at which a log has no record, with what shows it.

Compaction leaves holes between batches and between the records of a batch. A hole is certain only to who has
read what lies on both sides of it, so it is made of that and not of a number of offsets.
"""

from __future__ import annotations

from typing import NamedTuple


class Span(NamedTuple):
    """Offsets [first, next) of a batch that was read: those of its header, with or without records."""

    first: int
    next: int


class Hole:
    """Offsets [first, next) without a record.

    `evidence`: the batch that follows them, or the one that they lie in, whose records have been read. Raises
    ValueError for a batch that shows nothing about these offsets.
    """

    __slots__ = ("evidence", "first", "next")

    def __init__(self, first: int, following: int, evidence: Span) -> None:
        is_in_front = following <= evidence.first
        is_inside = evidence.first <= first and following <= evidence.next
        if not (first < following and (is_in_front or is_inside)):
            raise ValueError(f"{evidence} does not show that offsets {first} to {following - 1} are a hole")
        self.first = first
        self.next = following
        self.evidence = evidence
