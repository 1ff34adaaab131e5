"""The offset map of a lane: translates offsets exactly between source and destination.

A run maps `length` consecutive source offsets to as many consecutive destination offsets. A topic without
gaps has one run. A gap on either side (transaction markers, compaction, filtered records) starts a new run.
Offsets increase from run to run, so a lookup is a binary search.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

CHUNK: Final = 256
"""Number of runs in a stored chunk."""


class MapRun(NamedTuple):
    """A run of `length` consecutive records. `source`, `target`: first offset at source and destination."""

    source: int
    target: int
    length: int


class Precision(StrEnum):
    """How a translated offset relates to the given offset."""

    EXACT = "exact"
    """The offset of the same record."""
    NEXT = "next"
    """The offset has no record; the result is the next record."""
    END = "end"
    """The offset is after the last mirrored record; the result is the end of the mirrored records."""
    BEFORE = "before"
    """The offset is before the first run; the result is the start of the first run."""


class Translation(NamedTuple):
    """An offset translated to the other cluster, and its precision."""

    offset: int
    precision: Precision


class OffsetMap:
    """Maps the offsets of mirrored records between source and destination. Runs below `sealed` are already
    stored in chunks: see `unsealed`."""

    __slots__ = ("_counts", "_sources", "_targets", "first_index", "rewinds", "sealed", "stored_from")

    def __init__(self, first_index: int = 0) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        self.first_index = first_index
        """Index of the first run that was not pruned. Indexes also count pruned runs."""
        self.sealed = first_index
        """Number of the first run that is not stored in a chunk; see `first_index`."""
        self.stored_from = first_index
        """Number of the first run that may have a stored chunk, including pruned runs with a chunk."""
        self.rewinds = 0
        """Number of calls of `rewind`; see `note_stored`."""

    def __len__(self) -> int:
        return len(self._sources)

    def __iter__(self) -> Iterator[MapRun]:
        return map(MapRun, self._sources, self._targets, self._counts)

    @property
    def target_end(self) -> int | None:
        """Destination offset after the last mirrored record; None if the map is empty."""
        return self._targets[-1] + self._counts[-1] if self._sources else None

    def add(self, source: int, target: int, count: int) -> None:
        """Add `count` consecutive records. Source offsets must increase from call to call."""
        if self._sources:
            last = self._counts[-1]
            if self._sources[-1] + last == source and self._targets[-1] + last == target:
                self._counts[-1] = last + count
                return
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)

    def extend(self, runs: Iterable[tuple[int, int, int]]) -> None:
        """Add runs that were read from storage."""
        for source, target, count in runs:
            self._sources.append(source)
            self._targets.append(target)
            self._counts.append(count)

    def forward(self, source: int) -> Translation:
        """Translate a committed source offset of a consumer group to the destination."""
        return _look_up(self._sources, self._targets, self._counts, source)

    def backward(self, target: int) -> Translation:
        """Translate a committed destination offset of a consumer group to the source."""
        return _look_up(self._targets, self._sources, self._counts, target)

    def holds(self, start: int, end: int) -> bool:
        """Return whether a single run contains all source offsets of the non-empty range [start, end)."""
        index = bisect_right(self._sources, start) - 1
        return index >= 0 and end <= self._sources[index] + self._counts[index]

    def source_behind(self, target: int) -> int | None:
        """Return the source offset after the last record whose copy is below `target`, or None without
        any."""
        index = bisect_left(self._targets, target) - 1
        if index < 0:
            return None
        return self._sources[index] + min(self._counts[index], target - self._targets[index])

    def count(self, start: int, end: int) -> int:
        """Return how many source offsets in [start, end) are mirrored."""
        found = 0
        for index in range(len(self._sources)):
            first = self._sources[index]
            found += max(min(first + self._counts[index], end) - max(first, start), 0)
        return found

    def rewind(self, source: int) -> None:
        """Remove the records from a source offset on, because they will be copied again."""
        self.rewinds += 1
        keep = bisect_left(self._sources, source)
        self.truncate(keep)
        if self._sources:
            self._counts[-1] = min(self._counts[-1], source - self._sources[-1])
        last = max(self.first_index + len(self._sources) - 1, self.first_index)
        self.sealed = min(self.sealed, last - last % CHUNK)

    def truncate(self, runs: int) -> None:
        """Remove all but the first `runs` runs."""
        del self._sources[runs:], self._targets[runs:], self._counts[runs:]

    def forget_targets(self, target: int) -> None:
        """Remove the records from a destination offset on, because the destination has lost them."""
        while self._targets and self._targets[-1] + self._counts[-1] > target:
            kept = target - self._targets[-1]
            if kept > 0:
                self.rewind(self._sources[-1] + kept)
                return
            self.rewind(self._sources[-1])

    def prune(self, below: int) -> None:
        """Remove the chunks that are entirely below the log start offset of the source."""
        keep = 0
        while keep < len(self._sources) and self._sources[keep] + self._counts[keep] <= below:
            keep += 1
        keep = min(keep, max(len(self._sources) - 1, 0))
        index = self.first_index + keep
        keep = max(index - index % CHUNK - self.first_index, 0)
        if keep:
            del self._sources[:keep], self._targets[:keep], self._counts[:keep]
            self.first_index += keep
            self.sealed = max(self.sealed, self.first_index)

    def unsealed(self) -> tuple[list[tuple[int, list[MapRun]]], list[MapRun]]:
        """Return the full chunks of runs to store now, numbered, and the remaining runs. The last run may
        still grow, so it is never part of a full chunk."""
        runs = list(self)
        full: list[tuple[int, list[MapRun]]] = []
        start = max(self.sealed - self.sealed % CHUNK, self.first_index)
        end = self.first_index + len(runs)
        while start + CHUNK < end:
            stop = start - start % CHUNK + CHUNK
            full.append((start // CHUNK, runs[start - self.first_index : stop - self.first_index]))
            start = stop
        return full, runs[start - self.first_index :]

    def note_stored(self, upto: int, first: int, rewinds: int) -> None:
        """Note that the runs from number `first` to `upto` are stored in chunks.

        `first`, `rewinds`: attributes of the map at the start of the write. A map that was rewound since then
        may contain other runs, so the next write stores them again.
        """
        if rewinds == self.rewinds:
            self.sealed, self.stored_from = max(self.sealed, upto), first


def _look_up(keys: array[int], values: array[int], counts: array[int], offset: int) -> Translation:
    if not keys:
        return Translation(0, Precision.BEFORE)
    index = bisect_right(keys, offset) - 1
    if index < 0:
        return Translation(values[0], Precision.BEFORE)
    distance = offset - keys[index]
    if distance < counts[index]:
        return Translation(values[index] + distance, Precision.EXACT)
    if index + 1 < len(keys):
        return Translation(values[index + 1], Precision.NEXT)
    return Translation(values[index] + counts[index], Precision.END)
