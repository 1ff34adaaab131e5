"""Complete through T: the watermark of an audit that continues while records arrive. Pure.

The end of the source log, read after a time t, is beyond every record that was written before t. Once the
audit has compared all records before that end, every record written before t is at the destination. With the
stated lateness, the time between a record's timestamp and its arrival at the source, this holds for all
records with timestamps before t minus the lateness. Timestamps of records are never trusted.

An end is the high watermark, not the last stable offset: an open transaction may still commit older records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

from mirror.model.topics import TopicPartition

_MOST_ENDS: Final = 1_000


class PartitionWatermark:
    """Watermark of one partition. `through_ms`: every record written before this time is at the destination;
    None if unknown."""

    __slots__ = ("_ends", "_is_stopped", "through_ms")

    def __init__(self) -> None:
        self._ends: deque[tuple[int, int]] = deque()
        self._is_stopped = False
        self.through_ms: int | None = None

    def observe(self, at_ms: int, end: int) -> None:
        """Note the end of the source log, which was requested at that time. If it is lower than before, the
        log was truncated or replaced, and the higher ends no longer count."""
        while self._ends and self._ends[-1][1] > end:
            self._ends.pop()
        self._ends.append((at_ms, end))
        if len(self._ends) > _MOST_ENDS:
            self._ends = deque(list(self._ends)[1::2])  # the watermark becomes coarser, never later

    def compared(self, position: int, *, is_clean: bool) -> None:
        """Note that all records before a source offset were compared. A difference stops the watermark."""
        self._is_stopped |= not is_clean
        while not self._is_stopped and self._ends and self._ends[0][1] <= position:
            self.through_ms = self._ends.popleft()[0]

    def end_at(self, at_ms: int) -> int:
        """Return an end of the source log that was noted by then; 0 if none is kept."""
        return max((end for seen_ms, end in self._ends if seen_ms <= at_ms), default=0)

    @property
    def is_stopped(self) -> bool:
        """True after a difference."""
        return self._is_stopped

    def resume(self, through_ms: int | None, *, is_stopped: bool) -> None:
        """Continue from a stored state."""
        self.through_ms, self._is_stopped = through_ms, is_stopped

    def restart(self) -> None:
        """Start again from the newest end: all records before it must be compared again."""
        self.through_ms, self._is_stopped = None, False
        self._ends = deque(list(self._ends)[-1:])


class CompleteThrough:
    """Watermarks of all partitions of a datastream."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, PartitionWatermark] = {}
        self._observed_ms: int | None = None

    def observe(self, at_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """Note the ends of all source logs, requested at that time. Partitions without one were deleted."""
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
        """Return the watermark of an observed partition."""
        return self._partitions[place]

    @property
    def topics(self) -> Collection[str]:
        """Names of the observed topics, in order."""
        return sorted({place.topic for place in self._partitions})

    def through(self, lateness_ms: int, topic: str | None = None) -> int | None:
        """Return the time before which every record of a topic (default: of all topics) is at the
        destination; None if unknown."""
        found = [mark.through_ms for place, mark in self._partitions.items() if topic in (None, place.topic)]
        known = [through_ms for through_ms in found if through_ms is not None]
        return min(known) - lateness_ms if known and len(known) == len(found) else None
