"""The ledger of a lane: assigns a class to every source offset, so that no record is lost unnoticed.

Invariant: the counts of all classes add up to `next - start`; together with the batches in flight, to the
range of offsets read. An offset is entered once, in order, when its class is certain. No offset gets a class
merely because it remains in a range: COMPACTED requires a hole that was observed between two records or
batches.

The ledger also stores the ranges with filtered or dead-lettered records, which distinguish records that were
skipped on purpose from missing ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple

from mirror.errors import CorruptData
from mirror.model.bounds import LARGEST_OFFSET, integer
from mirror.protocol.batches.holes import OffsetHole
from mirror.protocol.batches.reframe import Run

_MOST_STRETCHES: Final = 32
"""Maximum number of stored ranges of skipped records. Above it, neighbouring ranges are joined."""


class OffsetClass(IntEnum):
    """Class of a source offset: what happened to its record."""

    MIRRORED = 0
    """The record is at the destination."""
    CONTROL = 1
    """A transaction marker of the source."""
    ABORTED = 2
    """A record of an aborted transaction, skipped under read_committed."""
    FILTERED = 3
    """A transform or the rejection policy dropped the record."""
    COMPACTED = 4
    """The offset has no record, because of compaction."""
    LOST = 5
    """Truncation or retention removed the record from the source before it was copied."""
    DEAD_LETTERED = 6
    """The destination rejected the record, and the record is in the dead-letter topic."""


class Unaccounted(Exception):
    """Raised if a source offset cannot be assigned a class for lack of evidence."""


class SkippedOffsets:
    """Source offsets [first, next) that are not sent, and their class. They are final once all earlier
    offsets have a class. Raises Unaccounted for COMPACTED without an observed gap."""

    __slots__ = ("first", "next", "offset_class")

    def __init__(
        self, offset_class: OffsetClass, first: int, following: int, hole: OffsetHole | None = None
    ) -> None:
        is_hole = hole is not None and hole.first == first and hole.next == following
        if first >= following or is_hole != (offset_class is OffsetClass.COMPACTED):
            raise Unaccounted(
                f"no batch proves that offsets {first} to {following - 1} are {offset_class.name}"
            )
        self.offset_class = offset_class
        self.first = first
        self.next = following

    @property
    def count(self) -> int:
        """Number of skipped offsets."""
        return self.next - self.first


def compacted(hole: OffsetHole) -> SkippedOffsets:
    """Return the offsets in a gap between source records as SkippedOffsets of the class COMPACTED."""
    return SkippedOffsets(OffsetClass.COMPACTED, hole.first, hole.next, hole)


class LeftOutStretch(NamedTuple):
    """Range [first, next) of source offsets, of which `records` were filtered or dead-lettered."""

    first: int
    next: int
    records: int

    @property
    def is_whole(self) -> bool:
        """True if all offsets in the range were filtered or dead-lettered."""
        return self.records == self.next - self.first


class Ledger:
    """Counts of source offsets in [start, next) for each class (mirrored, filtered, compacted, ...)."""

    __slots__ = ("_grain", "counts", "left_out", "next", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        """The checkpoint: every lower offset has a class."""
        self.counts = [0] * len(OffsetClass)
        self.left_out: list[LeftOutStretch] = []
        """Ranges with filtered or dead-lettered records, in order."""
        self._grain = 0
        """Neighbouring ranges that span at most this many offsets together are joined."""

    def enter(self, offset_class: OffsetClass, count: int) -> None:
        """Assign a class to the next `count` offsets. Raises Unaccounted for the class COMPACTED."""
        if offset_class is OffsetClass.COMPACTED:
            raise Unaccounted(f"no batch proves a gap of {count} offsets from {self.next} on")
        self._count(offset_class, count)

    def pass_over(self, skipped: SkippedOffsets) -> None:
        """Count skipped offsets in their class. Raises Unaccounted if offsets before them are missing."""
        if skipped.first != self.next:
            raise Unaccounted(f"expected offset {self.next}, not {skipped.first}")
        self._count(skipped.offset_class, skipped.next - skipped.first)

    def enter_batch(self, runs: Sequence[Run], passed: Sequence[SkippedOffsets]) -> None:
        """Count the offsets of a batch: its mirrored records, and the skipped offsets between them. Raises
        Unaccounted if an offset of the batch is missing."""
        place = 0
        for first, count in runs:
            while place < len(passed) and passed[place].first < first:
                self.pass_over(passed[place])
                place += 1
            if first != self.next:
                raise Unaccounted(f"the record at offset {first} does not follow {self.next - 1}")
            self._count(OffsetClass.MIRRORED, count)
        for skipped in passed[place:]:
            self.pass_over(skipped)

    def _count(self, offset_class: OffsetClass, count: int) -> None:
        if offset_class is OffsetClass.FILTERED or offset_class is OffsetClass.DEAD_LETTERED:
            self._note_left_out(LeftOutStretch(self.next, self.next + count, count))
        self.counts[offset_class] += count
        self.next += count

    def _note_left_out(self, stretch: LeftOutStretch) -> None:
        self.left_out[-1:] = _joined([*self.left_out[-1:], stretch], self._grain)
        while len(self.left_out) > _MOST_STRETCHES:
            self._grain = max(2 * self._grain, 1)
            self.left_out = _joined(self.left_out, self._grain)

    def prune(self, below: int) -> None:
        """Drop the ranges below the log start offset of the source."""
        if self.left_out and self.left_out[0].next <= below:
            self.left_out = [stretch for stretch in self.left_out if stretch.next > below]

    def total(self, offset_class: OffsetClass) -> int:
        """Return the number of source offsets in this class."""
        return self.counts[offset_class]

    @property
    def is_balanced(self) -> bool:
        """Return whether the ledger is complete: the counts add up to `next - start`."""
        return sum(self.counts) == self.next - self.start

    def by_class(self) -> dict[str, int]:
        """Map class names to the number of source offsets in the class."""
        return {offset_class.name.lower(): self.counts[offset_class] for offset_class in OffsetClass}

    def to_json(self) -> dict[str, Any]:
        """Return the ledger in its stored form, without zero counts."""
        counts = {
            offset_class.name.lower(): self.counts[offset_class]
            for offset_class in OffsetClass
            if self.counts[offset_class]
        }
        document: dict[str, Any] = {"start": self.start, "counts": counts}
        if self.left_out:
            document["left_out"] = [list(stretch) for stretch in self.left_out]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any], next_offset: int) -> Ledger:
        """Restore a ledger from its stored form. Raises CorruptData, InvalidRequest, KeyError."""
        ledger = cls(integer("start", document["start"], 0, LARGEST_OFFSET))
        for name, count in document["counts"].items():
            ledger.counts[OffsetClass[name.upper()]] = integer(name, count, 0, LARGEST_OFFSET)
        ledger.next = next_offset
        if not ledger.is_balanced:
            raise CorruptData(f"the counts of a stored ledger do not add up: {document} up to {next_offset}")
        if "left_out" in document:
            for first, end, records in document["left_out"]:
                numbers = (integer("left_out", number, 0, LARGEST_OFFSET) for number in (first, end, records))
                ledger.left_out += [LeftOutStretch(*numbers)] if records else []
        elif count := ledger.total(OffsetClass.FILTERED) + ledger.total(OffsetClass.DEAD_LETTERED):
            ledger.left_out = [LeftOutStretch(ledger.start, ledger.next, count)]  # stored without ranges
        return ledger


def _joined(stretches: Sequence[LeftOutStretch], grain: int) -> list[LeftOutStretch]:
    """Join ranges that are adjacent, or that together span at most `grain` offsets."""
    joined: list[LeftOutStretch] = []
    for stretch in stretches:
        if joined:
            last = joined[-1]
            together = LeftOutStretch(last.first, stretch.next, last.records + stretch.records)
            if together.is_whole or together.next - together.first <= grain:
                joined[-1] = together
                continue
        joined.append(stretch)
    return joined
