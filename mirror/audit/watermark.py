"""Watermark of a continuous audit: the time before which the copy is complete. Pure.

At a time t, the audit reads the end offset of the source log. All records that were written before t are
before this offset. When the audit has compared all these records, every record written before t is at the
destination. Lateness is the maximum time between the timestamp of a record and its arrival at the source.
Therefore, all records with a timestamp before t minus the lateness are at the destination. The watermark
itself does not depend on record timestamps.

The end of a log is its high watermark, not its last stable offset, because an open transaction may still
commit older records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from mirror.model.topics import TopicPartition

_MOST_ENDS: Final = 1_000


class PartitionWatermark:
    """Watermark of one partition (see the module docstring).

    `through_ms`: time before which every written record is at the destination; None if unknown.
    """

    __slots__ = ("_ends", "_is_stopped", "through_ms")

    def __init__(self) -> None:
        self._ends: deque[tuple[int, int]] = deque()
        self._is_stopped = False
        self.through_ms: int | None = None

    def observe(self, at_ms: int, end: int) -> None:
        """Store the end offset that the source log had at a time.

        `at_ms`: time of the request. An end that is lower than an earlier end means that the log was
        truncated or replaced. Higher earlier ends are then dropped.
        """
        while self._ends and self._ends[-1][1] > end:
            self._ends.pop()
        self._ends.append((at_ms, end))
        if len(self._ends) > _MOST_ENDS:
            self._ends = deque(list(self._ends)[1::2])  # the watermark becomes coarser, never later

    def compared(self, position: int, *, is_clean: bool) -> None:
        """Advance to an offset up to which all records were compared. A difference stops the watermark."""
        self._is_stopped |= not is_clean
        while not self._is_stopped and self._ends and self._ends[0][1] <= position:
            self.through_ms = self._ends.popleft()[0]

    def end_at(self, at_ms: int) -> int:
        """Return the highest source end offset that was observed before a time, or 0."""
        return max((end for seen_ms, end in self._ends if seen_ms <= at_ms), default=0)

    @property
    def is_stopped(self) -> bool:
        """True if a difference was found, so that the watermark no longer advances."""
        return self._is_stopped

    def resume(self, through_ms: int | None, *, is_stopped: bool) -> None:
        """Continue from a stored watermark."""
        self.through_ms, self._is_stopped = through_ms, is_stopped

    def restart(self) -> None:
        """Discard all but the newest end offset, so that earlier records are compared again."""
        self.through_ms, self._is_stopped = None, False
        self._ends = deque(list(self._ends)[-1:])


class CompleteThrough:
    """Watermarks of all partitions of a datastream."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionWatermark] = {}
        self._observed_ms: int | None = None

    def observe(self, at_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """Store the current end offset of each source partition.

        `at_ms`: time of the request. A partition without an end offset was deleted.
        """
        for place in self._partitions.keys() - ends.keys():
            del self._partitions[place]
        for place, end in ends.items():
            if place not in self._partitions:
                known = self._partitions[place] = PartitionWatermark()
                if self._observed_ms is not None:
                    known.observe(self._observed_ms, 0)  # it did not exist yet
            self._partitions[place].observe(at_ms, end)
        self._observed_ms = at_ms

    def of(self, place: TopicPartition) -> PartitionWatermark:
        """Return the watermark of a partition. The partition must have been observed."""
        return self._partitions[place]

    @property
    def topics(self) -> Collection[str]:
        """Sorted names of the observed topics."""
        return sorted({place.topic for place in self._partitions})

    def through(self, lateness_ms: int, topic: str | None = None) -> int | None:
        """Return the event time before which every record of a topic is at the destination, in epoch ms.

        Returns None if unknown. `topic`: None means all topics.
        """
        found = [mark.through_ms for place, mark in self._partitions.items() if topic in (None, place.topic)]
        known = [through_ms for through_ms in found if through_ms is not None]
        return min(known) - lateness_ms if known and len(known) == len(found) else None
