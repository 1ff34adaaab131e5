"""Keeps track of end offsets of source partitions, and of the times at which records were appended.

No other module changes the end of the source log in a lane.
"""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.model.movement.append_times import AppendTimes
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.lanes.delivery import LaneDelivery


class SourceEnds:
    """Updates the end offsets of source logs. `delivery` counts latency again once a lane has caught up."""

    def __init__(self, delivery: LaneDelivery) -> None:
        self._delivery = delivery

    def note_response(self, lane: Lane, part: FetchedPartition, now: float, now_ms: int) -> None:
        """Update the end offsets from a Fetch response that was received at `now` (monotonic seconds)."""
        read, requests = lane.read, lane.read.request_times
        self._note_end(lane, part.high_watermark, part.last_stable_offset, now_ms)
        read.times.quiet(requests.quiet_at)
        read.times.record_end(part.high_watermark, requests.requested_at, now, now_ms, lane.checkpoint)
        read.log_start = part.log_start

    def note_end(self, lane: Lane, end: int, requested_at: float, now: float, now_ms: int) -> None:
        """Update the end offset of a partition that is not being fetched. `requested_at`, `now`: time of the
        request and current time in monotonic seconds."""
        read = lane.read
        self._note_end(lane, max(read.high_watermark, end), end, now_ms)
        read.answered_at = now
        if not read.rules.read_committed:  # otherwise more records may have been appended
            read.times.record_end(end, requested_at, now, now_ms, lane.checkpoint)

    def note_end_while_paused(self, lane: Lane, end: int) -> None:
        """Update the end offset of a paused lane's source partition."""
        lane.read.high_watermark = end

    def begin_log(self, lane: Lane) -> None:
        """Drop the known append times, because another log or another history of the log begins."""
        lane.read.times = AppendTimes()

    def _note_end(self, lane: Lane, end: int, stable_offset: int, now_ms: int) -> None:
        read = lane.read
        if read.high_watermark >= 0 and read.position >= read.readable_end:
            read.caught_up_ms = now_ms  # until now, no record after the position was known
            if read.grace is not None:
                self._delivery.end_grace(lane)
        read.high_watermark, read.stable_offset = end, stable_offset
