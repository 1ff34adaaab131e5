"""Plans which offset ranges to read ahead, and returns their responses in offset order.

Pure. Several consecutive ranges are requested at the same time on different connections, and their responses
arrive in any order. A response is passed on when the lane has reached its range. Data before the lane's
position is skipped; data after the position waits. A wrong estimate of a range therefore costs a request, but
never a record.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.batches.batch import HEADER_SIZE, MAGIC_AT, OVERHEAD, BatchHeader
from mirror.protocol.fetch import FetchedPartition

_FORMAT: Final = 2
"""First batch format (magic) whose header contains the number of offsets."""
_BATCHES_SEEN: Final = 8
_MARGIN: Final = 256


class OffsetRange:
    """A requested offset range [`start`, `stop`). `size`: byte limit of the request.

    `part`, `slab`: the response and its buffer, None until the response arrives. `requested_at`: time of the
    request in monotonic seconds. `is_dropped`: the response is not needed.
    """

    __slots__ = ("is_dropped", "part", "requested_at", "size", "slab", "start", "stop")

    def __init__(self, start: int, stop: int, size: int) -> None:
        self.start = start
        self.stop = stop
        self.size = size
        self.part: FetchedPartition | None = None
        self.slab: ReceiveBuffer | None = None
        self.requested_at = 0.0
        self.is_dropped = False

    def fill(self, part: FetchedPartition, slab: ReceiveBuffer) -> None:
        """Store the response for this range, and retain its buffer."""
        slab.retain()
        self.part, self.slab = part, slab

    def drop(self) -> None:
        """Release the response for this range, or ignore it if it arrives later."""
        self.is_dropped = True
        if self.slab is not None:
            self.slab.release()
        self.part = self.slab = None


class ReadPlan:
    """Requested and received offset ranges of one partition, in offset order."""

    __slots__ = ("_batch_bytes", "_batch_offsets", "_bytes_per_offset", "_is_even", "_next", "ranges")

    def __init__(self) -> None:
        self.ranges: deque[OffsetRange] = deque()
        self._next = -1
        self._bytes_per_offset = 0.0
        self._batch_bytes = self._batch_offsets = 0
        self._is_even = False

    @property
    def is_known(self) -> bool:
        """Return whether the size of records is known, which is required to plan ranges."""
        return self._batch_bytes > 0

    def learn(self, records: memoryview) -> None:
        """Estimate the size of records from the first batches of a response."""
        first, end, position, largest, offsets, is_even = -1, 0, 0, 0, 0, True
        for _ in range(_BATCHES_SEEN):
            header = header_at(records, position)
            if header is None:
                break
            size = OVERHEAD + header.length
            span = header.last_offset_delta + 1
            first = header.base_offset if first < 0 else first
            is_even = is_even and span == (offsets or span) and header.base_offset == (end or first)
            offsets, end = span, header.last_offset + 1
            largest, position = max(largest, size), position + size
        if position:
            self._bytes_per_offset = position / max(end - first, 1)
            self._batch_bytes = max(largest, self._batch_bytes - self._batch_bytes // _BATCHES_SEEN)
            self._batch_offsets, self._is_even = offsets, is_even

    def prune(self, position: int) -> None:
        """Drop the ranges before `position`. Drops all ranges if the first remaining one is far ahead."""
        while self.ranges and self.ranges[0].stop <= position:
            self.ranges.popleft().drop()
        if self.ranges and self.ranges[0].start - position > self.ranges[0].stop - self.ranges[0].start:
            self.clear()
        if not self.ranges:
            self._next = position
        self._next = max(self._next, position)

    def head(self, position: int) -> OffsetRange | None:
        """Return the range that contains `position`, or None if no range was requested there."""
        first = self.ranges[0] if self.ranges else None
        return first if first is not None and first.start <= position else None

    def fill_gap(self, position: int, end: int, most_bytes: int) -> OffsetRange:
        """Add and return the range from `position` to the first planned range, else a full range."""
        if not self.ranges:
            return self.extend(end, most_bytes)
        stop = self.ranges[0].start
        size = int((stop - position) * self._bytes_per_offset) + self._batch_bytes
        gap = OffsetRange(position, stop, min(size, max(most_bytes, self._batch_bytes)))
        self.ranges.appendleft(gap)
        return gap

    def has_more(self, end: int) -> bool:
        """Return whether more offsets before `end` can be requested."""
        return self._next < end

    def extend(self, end: int, most_bytes: int) -> OffsetRange:
        """Add and return the range after the last one: about `most_bytes`, at least one batch, up to `end`.

        A broker returns whole batches, so a batch on the border of two ranges is received twice. If all
        batches have the same number of offsets, ranges end at the border of batches.
        """
        if self._is_even:
            batches = max(most_bytes // self._batch_bytes, 1)
            step, size = batches * self._batch_offsets, batches * self._batch_bytes + _MARGIN
        else:
            step = max(int(most_bytes / self._bytes_per_offset), 1)
            size = most_bytes + self._batch_bytes
        start = self._next
        self._next = stop = min(start + step, end)
        added = OffsetRange(start, stop, size)
        self.ranges.append(added)
        return added

    @property
    def holds_any(self) -> bool:
        """Return whether any range has arrived before the ranges that precede it."""
        return any(part.slab is not None for part in self.ranges)

    def drop_last_held(self) -> None:
        """Drop the last range that has arrived, unless it is the first range."""
        for place in range(len(self.ranges) - 1, 0, -1):
            last = self.ranges[place]
            if last.slab is not None:
                if place == len(self.ranges) - 1:
                    self._next = last.start
                del self.ranges[place]
                last.drop()
                return

    def clear(self) -> None:
        """Drop all ranges of the partition."""
        for part in self.ranges:
            part.drop()
        self.ranges.clear()
        self._next = -1


def header_at(records: memoryview, position: int) -> BatchHeader | None:
    """Return the header of the batch that contains `position`; None if incomplete or in an older format."""
    if len(records) - position < HEADER_SIZE or records[position + MAGIC_AT] != _FORMAT:
        return None
    header = BatchHeader(records, position)
    return header if 0 < header.length <= len(records) - position - OVERHEAD else None


def from_position(records: memoryview, position: int) -> memoryview:
    """Return the part of a response that starts with the batch that contains `position`."""
    start = 0
    while (header := header_at(records, start)) is not None and header.last_offset < position:
        start += OVERHEAD + header.length
    return records[start:] if header is not None else records[:0]
