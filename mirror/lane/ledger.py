"""The ledger of a lane: what became of every source offset.

Invariant: the counts of all classes add up to `next - start`; with what is in flight, to the range
that was consumed. An offset is entered once, when its class is certain, in offset order.

With the offset map a ledger also says which records were left out on purpose. Of the offsets that it accounts
for, those in the map are at the destination. A record that the source shows at any other offset was filtered
or dead-lettered: markers are no records, aborted ones are not shown, and what was compacted or lost is not
there. So the map says which records these are, whatever the source has expired since; the ledger's count is
the limit all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from mirror.errors import CorruptData
from mirror.lane.offset_map import OffsetMap


class OffsetClass(IntEnum):
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
    """Counts by class over [start, next)."""

    __slots__ = ("counts", "next", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.next = start
        """The checkpoint: everything below is accounted for."""
        self.counts = [0] * len(OffsetClass)

    def enter(self, offset_class: OffsetClass, count: int) -> None:
        """The next `count` offsets met this class."""
        self.counts[offset_class] += count
        self.next += count

    def total(self, offset_class: OffsetClass) -> int:
        """How many offsets met this class."""
        return self.counts[offset_class]

    @property
    def is_balanced(self) -> bool:
        """Whether the invariant holds."""
        return sum(self.counts) == self.next - self.start

    def by_class(self) -> dict[str, int]:
        """Counts by name, for people and programs."""
        return {offset_class.name.lower(): self.counts[offset_class] for offset_class in OffsetClass}

    def to_json(self) -> dict[str, Any]:
        """As stored in a progress record; zeros are left out."""
        counts = {
            offset_class.name.lower(): self.counts[offset_class]
            for offset_class in OffsetClass
            if self.counts[offset_class]
        }
        return {"start": self.start, "counts": counts}

    @classmethod
    def from_json(cls, document: Mapping[str, Any], next_offset: int) -> Ledger:
        """Read it back. Raises CorruptData when it does not add up."""
        ledger = cls(int(document["start"]))
        for name, count in document["counts"].items():
            ledger.counts[OffsetClass[name.upper()]] = int(count)
        ledger.next = next_offset
        if not ledger.is_balanced:
            raise CorruptData(f"a stored ledger does not add up: {document} up to {next_offset}")
        return ledger


class Uncopied(NamedTuple):
    """Records of the source that the checkpoints know not to be at the destination: those that were left out
    on purpose, and the others, which are missing."""

    left_out: int = 0
    missing: int = 0


class LeftOut:
    """`most`: how many records the ledger counts as filtered or dead-lettered. `forgotten`: mirrored records
    that the map does not have any more, because the destination has lost them; they cannot be told from what
    was left out, so that many at most count as missing. It is 0 for a map whose first runs were pruned."""

    __slots__ = ("_map", "forgotten", "most")

    def __init__(self, ledger: Ledger, offset_map: OffsetMap) -> None:
        self._map = offset_map
        self.most = ledger.total(OffsetClass.FILTERED) + ledger.total(OffsetClass.DEAD_LETTERED)
        self.forgotten = 0
        if not offset_map.first_index:
            kept = offset_map.count(ledger.start, ledger.next)
            self.forgotten = max(ledger.total(OffsetClass.MIRRORED) - kept, 0)

    def is_copied(self, source: int) -> bool:
        """Whether the record at this source offset has been mirrored."""
        return self._map.holds(source, source + 1)

    def are_copied(self, start: int, end: int) -> bool:
        """Whether every source offset of [start, end) has been mirrored, in one run."""
        return self._map.holds(start, end)

    def judge(self, uncopied: int) -> Uncopied:
        """What became of the records that the source has at offsets that are not copied, by their number."""
        left_out = min(max(uncopied - self.forgotten, 0), self.most)
        return Uncopied(left_out, uncopied - left_out)
