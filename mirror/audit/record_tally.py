"""Counts source records that are not at the destination: skipped on purpose, or missing.

Together with the offset map, a ledger shows which records were skipped on purpose. Of the offsets that the
ledger covers, those in the map are at the destination. Any other record that the source still has is missing,
whatever its class, unless it is in a range with filtered or dead-lettered records; the ledger stores these
ranges.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from operator import attrgetter
from typing import NamedTuple

from mirror.lane.ledger import Ledger, OffsetClass
from mirror.lane.offset_map import OffsetMap


class Uncopied(NamedTuple):
    """Numbers of source records not at the destination: skipped on purpose (`left_out`) and `missing`."""

    left_out: int = 0
    missing: int = 0


class LeftOut:
    """Distinguishes records that were skipped on purpose from missing records.

    `forgotten`: number of mirrored records that the map no longer contains, because the destination lost
    them. A joined range may include such records, so up to `forgotten` skipped records are counted as
    missing. `forgotten` is 0 if the first runs of the map were pruned.
    """

    __slots__ = ("_map", "forgotten", "stretches")

    def __init__(self, ledger: Ledger, offset_map: OffsetMap) -> None:
        self._map = offset_map
        self.stretches = tuple(ledger.left_out)
        self.forgotten = 0
        if not offset_map.first_index:
            kept = offset_map.count(ledger.start, ledger.next)
            self.forgotten = max(ledger.total(OffsetClass.MIRRORED) - kept, 0)

    def is_copied(self, source: int) -> bool:
        """Return whether the record at this source offset has been mirrored."""
        return self._map.holds(source, source + 1)

    def are_copied(self, start: int, end: int) -> bool:
        """Return whether a single run of the offset map contains all source offsets of [start, end)."""
        return self._map.holds(start, end)

    def stretch_of(self, source: int) -> int:
        """Return the index of the skipped offset range that contains the offset, or -1."""
        index = bisect_right(self.stretches, source, key=attrgetter("first")) - 1
        return index if index >= 0 and source < self.stretches[index].next else -1

    def are_left_out(self, start: int, end: int) -> bool:
        """Return whether every source offset of [start, end) was skipped on purpose."""
        index = self.stretch_of(start)
        return index >= 0 and self.stretches[index].is_whole and end <= self.stretches[index].next


class UncopiedTally:
    """Counts the source records that a lane did not copy."""

    def __init__(self, left_out: LeftOut) -> None:
        self._left_out = left_out
        self._found = Counter[int]()

    def note(self, source: int, count: int = 1) -> None:
        """Count an uncopied record, or `count` records of a batch that was skipped as a whole."""
        self._found[self._left_out.stretch_of(source)] += count

    def judge(self) -> Uncopied:
        """Return the number of records skipped on purpose, and the number of missing records."""
        known = self._left_out
        whole = joined = most = 0
        for index, count in self._found.items():
            if index >= 0 and known.stretches[index].is_whole:
                whole += count
            elif index >= 0:
                joined += count
                most += min(count, known.stretches[index].records)
        left_out = whole + min(max(joined - known.forgotten, 0), most)
        return Uncopied(left_out, self._found.total() - left_out)
