"""Determines from the stored ledger and offset map which records a copy must contain. Pure."""

from __future__ import annotations

from mirror.audit.record_tally import LeftOut, Uncopied, UncopiedTally
from mirror.lane.offset_map import OffsetMap, Precision
from mirror.lane.progress import LaneProgress


class LedgerAccount:
    """Determines from a lane's ledger which records the lane copied. Implements `matcher.CopyAccount`."""

    def __init__(self, progress: LaneProgress) -> None:
        self._map = progress.offset_map
        self._left_out = LeftOut(progress.ledger, progress.offset_map)
        self._tally = UncopiedTally(self._left_out)

    @property
    def runs(self) -> OffsetMap:
        """Runs of copied records. Each run is a source offset, a destination offset, and a length."""
        return self._map

    def is_expected(self, source: int) -> bool:
        """Return whether the source record was copied. If it was not copied, count it."""
        if self._left_out.is_copied(source):
            return True
        self._tally.note(source)
        return False

    def is_copy(self, first: int, following: int, target: int, target_next: int) -> bool:
        """Return whether the offset map maps exactly [first, following) to [target, target_next)."""
        is_as_long = following - first == target_next - target
        return is_as_long and self._left_out.are_copied(first, following) and self.origin(target) == first

    def origin(self, target: int) -> int | None:
        """Return the source offset of a destination offset, or None if the offset map lacks it."""
        offset, precision = self._map.backward(target)
        return offset if precision is Precision.EXACT else None

    def place(self, source: int) -> int | None:
        """Return the destination offset of a source offset, or None if the offset map lacks it."""
        offset, precision = self._map.forward(source)
        return offset if precision is Precision.EXACT else None

    def is_left_out(self, start: int, end: int) -> bool:
        """Return whether every record of the offsets [start, end) was skipped intentionally.

        Omitted records may be undecodable.
        """
        return self._left_out.are_left_out(start, end)

    def note_left_out(self, source: int, count: int) -> None:
        """Count `count` source records of a batch that was skipped as a whole on purpose."""
        self._tally.note(source, count)

    def is_missing(self, source: int) -> bool:
        """Return whether the source record should have been copied, but was not."""
        return not self._left_out.is_copied(source) and not self._left_out.are_left_out(source, source + 1)

    def note_arrived(self, source: int) -> None:
        """Count a record as copied that was counted as not copied before.

        If the destination has lost records, the gap in the ledger may be too large.
        """
        self._tally.note(source, -1)

    def uncopied(self) -> Uncopied:
        """Return the numbers of uncopied records: skipped on purpose, and missing."""
        return self._tally.judge()


def settled_offset(progress: LaneProgress, target_end: int, open_to: int) -> int:
    """Return the source offset up to which consumers of the destination can read the copies.

    A transaction may be complete in the progress topic before it is complete in the destination partition.
    `target_end`, `open_to`: last stable offset and high watermark of the destination.
    """
    if target_end < (progress.offset_map.target_end or 0) <= open_to:
        return progress.offset_map.source_behind(target_end) or progress.ledger.start
    return progress.next_offset
