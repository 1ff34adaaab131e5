"""The ledger of a lane: what became of every source offset.

Invariant: the counts of all classes add up to `next - start`; with what is in flight, to the range
that was consumed. An offset is entered once, when its fate is certain, in offset order.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from mirror.errors import CorruptData


class Fate(IntEnum):
    """The classes of offsets."""

    MIRRORED = 0
    """The record is at the destination."""
    CONTROL = 1
    """A transaction marker of the source."""
    ABORTED = 2
    """A record of an aborted transaction, left out under read_committed."""
    FILTERED = 3
    """Left out by a transform or by the rejection policy."""
    COMPACTED = 4
    """No record there any more: compaction, or a batch that compaction emptied."""
    LOST = 5
    """Gone from the source before it was copied: truncation or retention."""
    DEAD_LETTERED = 6
    """The destination refused the record; it is in the dead-letter topic."""


class Ledger:
    """Counts by fate over [start, next)."""

    __slots__ = ("counts", "next", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        """The checkpoint: everything below is accounted for."""
        self.counts = [0] * len(Fate)

    def enter(self, fate: Fate, count: int) -> None:
        """The next `count` offsets met this fate."""
        self.counts[fate] += count
        self.next += count

    def total(self, fate: Fate) -> int:
        """How many offsets met this fate."""
        return self.counts[fate]

    @property
    def is_balanced(self) -> bool:
        """Whether the invariant holds."""
        return sum(self.counts) == self.next - self.start

    def by_fate(self) -> dict[str, int]:
        """Counts by name, for people and programs."""
        return {fate.name.lower(): self.counts[fate] for fate in Fate}

    def to_json(self) -> dict[str, Any]:
        """As stored in a progress record; zeros are left out."""
        counts = {fate.name.lower(): self.counts[fate] for fate in Fate if self.counts[fate]}
        return {"start": self.start, "counts": counts}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], next_offset: int) -> Ledger:
        """Read it back. Raises CorruptData when it does not add up."""
        ledger = cls(int(document["start"]))
        for name, count in document["counts"].items():
            ledger.counts[Fate[name.upper()]] = int(count)
        ledger.next = next_offset
        if not ledger.is_balanced:
            raise CorruptData(f"a stored ledger does not add up: {document} up to {next_offset}")
        return ledger
