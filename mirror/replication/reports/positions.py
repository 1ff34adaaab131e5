"""Computes positions of lanes, from which the service derives their progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from mirror.lane.lane import Lane
from mirror.model.identifiers import ClusterRef
from mirror.model.latency import age_ms
from mirror.model.movement.history import LATE_MS, UNKNOWN_RETENTION, LanePosition, Retention


class Positions:
    """Computes the positions of the lanes of one engine. `retention_of`: returns the retention of a source
    topic, if known. Only called for late lanes."""

    def __init__(self, retention_of: Callable[[ClusterRef, str], Retention]) -> None:
        self._retention_of = retention_of
        self._reported_at = -inf

    def of(self, lane: Lane, lag_ms: int | None, now_ms: int) -> LanePosition:
        """Return the lane's position. `lag_ms`: age of the backlog. `now_ms`: current time (epoch ms)."""
        end, checkpoint = lane.read.high_watermark, lane.checkpoint
        is_late = end > checkpoint and (lag_ms is None or lag_ms > LATE_MS or lane.read.readable_end < end)
        kept = (
            self._retention_of(lane.spec.source, lane.key.partition.topic) if is_late else UNKNOWN_RETENTION
        )
        readable = _readable_end(lane)
        hidden_ms = _hidden_ms(lane, now_ms) if lane.observed.hidden[0] == readable < end else None
        return LanePosition(
            checkpoint, readable, end, lane.read.log_start, kept, hidden_ms, life=lane.progress.life
        )

    def due_positions(self, lanes: Sequence[Lane], at: float, now_ms: int) -> list[LanePosition | None]:
        """Return the positions of lanes measured at `at` (monotonic seconds) and `now_ms` (epoch ms). For a
        receiver that has all earlier positions: None for positions that `PositionWatch` withholds."""
        found: list[LanePosition | None] = []
        moments = at, self._reported_at
        for lane in lanes:
            watch, end = lane.observed.watch, lane.read.high_watermark
            readable = _readable_end(lane)
            lag_ms, records, size = lane.observed.measured
            watch.set_generation(lane.generation, lane.progress.life)
            if watch.withholds(
                moments, lane.checkpoint, readable, end, lane.read.log_start, lag_ms, (records, size)
            ):
                found.append(None)
            else:
                found.append(watch.report(self.of(lane, lag_ms, now_ms)))
        self._reported_at = at
        return found


def _hidden_ms(lane: Lane, now_ms: int) -> int | None:
    offset, timestamp = lane.observed.hidden
    return age_ms(now_ms, lane.read.times.appended_ms(timestamp, lane.read.times.span(offset, offset)))


def _readable_end(lane: Lane) -> int:
    """Return the end of the records that can be read from the source, or of the log if unknown."""
    end, readable = lane.read.high_watermark, lane.read.readable_end
    return min(readable, end) if readable >= 0 else end
