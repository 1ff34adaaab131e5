"""Decides when a lane fetches, and whether as a live lane or as one with a backlog.

The time depends on buffer, quotas and end offset; the tier depends on the lag.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Final

from mirror.lane.batch_merge import bytes_sent_from
from mirror.lane.lane import Lane
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.quotas.quota_watch import QuotaWatch

_BEHIND_BYTES_SHARE: Final = 0.9
_RETRY_SECONDS: Final = 0.2


class ReadPacer:
    """Decides which lanes a channel includes in its next Fetch request."""

    def __init__(
        self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner, quotas: QuotaWatch
    ) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._quotas = quotas
        self._loop = context.loop
        self._settings = context.settings

    def ask_for_more(self, lane: Lane, received: int) -> None:
        """Include the lane in the channel's next request, unless its buffer is full, its quota is used up, or
        it has reached its end. `received`: bytes of records in the last response."""
        reader = lane.reader
        if reader is None:
            return
        end = lane.spec.end_offset
        if end is not None and lane.read.position >= end:
            self._runner.finish(lane)
            return
        if self._holds_more(lane, self._settings.lane_buffer_bytes):
            reader.exclude(lane)
            return
        wait = self._quota_wait(lane) if lane.read.buckets else 0.0
        if not self.change_tier(lane, received, waits=wait > 0):
            if wait:
                reader.exclude(lane)
            else:
                reader.include(lane)
        if wait:
            self._runner.later(lane, wait, self._include)

    def resume(self, lane: Lane) -> None:
        """Resume fetching for a lane whose full buffer has drained."""
        if lane.read.waits and not self._holds_more(lane, self._settings.lane_buffer_bytes // 2):
            self.ask_for_more(lane, 0)

    def _holds_more(self, lane: Lane, most: int) -> bool:
        size = lane.queue.bytes_in_hand  # bytes in flight to a distant broker have their own memory
        return size > most and size - bytes_sent_from(self._context.write_budget, lane) > most

    def try_later(self, lane: Lane) -> None:
        """Resume fetching for the lane after a short delay, because the response was unusable."""
        reader = lane.reader
        if reader is not None:
            reader.exclude(lane)
            self._runner.later(lane, _RETRY_SECONDS, self._include)

    def change_tier(self, lane: Lane, received: int, *, waits: bool = False) -> bool:
        """Move a lane that has caught up or fallen behind to the channels for live lanes or for backlogs.
        Return True after a move. With `waits`, fetching does not start immediately."""
        end = lane.read.readable_end
        if lane.read.is_live:
            most = min(lane.read.size.most, self._settings.live_fetch_bytes)
            if lane.read.position < end and (waits or received >= _BEHIND_BYTES_SHARE * most):
                self._lanes.source(lane).change_tier(lane, live=False, waits=waits)
                return True
        elif 0 <= end <= lane.read.position:
            self._lanes.source(lane).change_tier(lane, live=True, waits=waits)
            return True
        return False

    def _quota_wait(self, lane: Lane) -> float:
        """Return the seconds until the lane's quotas allow the next fetch."""
        now = self._loop.now()
        is_behind = not lane.read.is_live and lane.read.position < lane.read.readable_end
        buckets = [bucket for bucket in lane.read.buckets if is_behind or not bucket.for_catching_up]
        if not buckets:
            return 0.0
        wait, bucket = max([(each.seconds_until_open(now), each) for each in buckets], key=itemgetter(0))
        if wait > 0:
            self._quotas.waits(lane, bucket, wait)
        return wait

    def _include(self, lane: Lane) -> None:
        if lane.reader is not None and lane.read.waits:
            self.ask_for_more(lane, 0)
