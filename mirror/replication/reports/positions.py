"""Where lanes stand, as it is said to who judges how they move."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from mirror.model.identifiers import ClusterRef
from mirror.model.metrics import age_ms
from mirror.model.movement.history import LATE_MS, UNKNOWN_RETENTION, LanePosition, Retention
from mirror.replication.live_lane import LiveLane


class Positions:
    """Of the lanes of one engine. `retention_of`: what a source keeps of a topic, as far as that is known; it
    is asked for lanes that are late."""

    def __init__(self, retention_of: Callable[[ClusterRef, str], Retention]) -> None:
        self._retention_of = retention_of
        self._said_at = -inf

    def of(self, lane: LiveLane, lag_ms: int | None, now_ms: int) -> LanePosition:
        """`lag_ms`: the age of what waits; `now_ms`: epoch milliseconds."""
        end, checkpoint = lane.high_watermark, lane.checkpoint
        is_late = end > checkpoint and (lag_ms is None or lag_ms > LATE_MS or lane.readable_end < end)
        kept = (
            self._retention_of(lane.spec.source, lane.key.partition.topic) if is_late else UNKNOWN_RETENTION
        )
        readable = _readable_end(lane)
        hidden_ms = age_ms(now_ms, lane.hidden[1]) if lane.hidden[0] == readable < end else None
        return LanePosition(checkpoint, readable, end, lane.log_start, kept, hidden_ms, life=lane.life)

    def to_say(self, lanes: Sequence[LiveLane], at: float, now_ms: int) -> list[LanePosition | None]:
        """Of lanes that were all measured at that moment (monotonic seconds, and `now_ms`), to somebody who
        was told of all before: None for one of which `PositionWatch` says that it needs no look."""
        found: list[LanePosition | None] = []
        moments = at, self._said_at
        for lane in lanes:
            watch, end = lane.watch, lane.high_watermark
            readable = _readable_end(lane)
            lag_ms, records, size = lane.measured
            watch.turn(lane.turn, lane.life)
            if watch.withholds(
                moments, lane.checkpoint, readable, end, lane.log_start, lag_ms, (records, size)
            ):
                found.append(None)
            else:
                found.append(watch.said(self.of(lane, lag_ms, now_ms)))
        self._said_at = at
        return found


def _readable_end(lane: LiveLane) -> int:
    """Within what the log holds; all of it where nothing more is known."""
    end, readable = lane.high_watermark, lane.readable_end
    return min(readable, end) if readable >= 0 else end
