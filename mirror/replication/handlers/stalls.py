"""Reports lanes that wait for an unresponsive cluster, or repeatedly get the same error.

Such lanes are not paused, because every operation is retried. After some seconds, the reason and the start of
the wait are reported until the lane makes progress. Lanes that copy normally cost no processor time, because
only silent clusters and failed lanes are recorded.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from mirror.lane.lane import Lane
from mirror.lane.lifecycle import ACTIVE, LaneState
from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import PauseCause
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.reports.causes import cause_of_silence

_LOOK_SECONDS: Final = 1.0
_LANES_A_SECOND: Final = 20_000
"""Maximum number of lanes checked per second. Above it, checks become less frequent."""
PATIENCE_SECONDS: Final = 5.0


class StallReporter:
    """Reports stalled lanes, with the cluster or error that blocks them."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._runner = runner
        self._failures = lanes.failures
        self._lane_log = lanes.log
        self._stalled: dict[Lane, None] = {}
        self._suspected: set[Lane] = set()
        self._next = 0.0

    def pump(self, now: float) -> None:
        """Report lanes that wait for unresponsive clusters or fail repeatedly."""
        if now < self._next:
            return
        self._next = now + max(_LOOK_SECONDS, len(self._lanes.by_key) / _LANES_A_SECOND)
        silent = self._context.silent_clusters(now - PATIENCE_SECONDS)
        if not (silent or self._failures.by_lane or self._stalled):
            return
        reasons: dict[Lane, tuple[str, PauseCause]] = {}
        if silent:
            for lane in self._lanes.by_key.values():
                name = _waits_for(lane, silent, now)
                if name is not None and name == lane.spec.destination:
                    self._runner.guard(lane, self._runner.give_way)
                if name is not None:
                    sentence = f"{self._context.silence(name)}, since {self._time(silent[name], now)}"
                    reasons[lane] = sentence, cause_of_silence(lane.spec, {name: silent[name]})
        self._note_failing(reasons, now)
        # The start of a lane is reported separately.
        for lane in [
            stalled
            for stalled in self._stalled
            if stalled not in reasons and stalled.state not in (LaneState.STARTING,)
        ]:
            self._resumed(lane)
        for lane, (reason, cause) in reasons.items():
            if lane in self._suspected:  # a single time may be chance, because the lane was busy
                self._report(lane, reason, cause)
        self._suspected = set(reasons)

    def _note_failing(self, reasons: dict[Lane, tuple[str, PauseCause]], now: float) -> None:
        for lane, failure in list(self._failures.by_lane.items()):
            if now > failure.until or lane.state in (LaneState.PAUSED, LaneState.STOPPED):
                del self._failures.by_lane[lane]
            elif now - failure.since >= PATIENCE_SECONDS:
                sentence = f"{failure.sentence}, since {self._time(failure.since, now)}"
                reasons[lane] = sentence, failure.side

    def _report(self, lane: Lane, reason: str, cause: PauseCause) -> None:
        self._stalled[lane] = None
        if lane.observed.stalled_by != reason:
            lane.observed.stalled_by = reason
            self._lane_log.waits(lane.spec, reason, cause)

    def _resumed(self, lane: Lane) -> None:
        del self._stalled[lane]
        lane.observed.stalled_by = ""
        if lane.pause is not None and lane.state is not LaneState.STOPPED:
            self._lane_log.waits(lane.spec, lane.pause.reason, lane.pause.cause, lane.pause.offset)
        elif lane.state in ACTIVE:
            self._lane_log.copies(lane.key)

    def _time(self, since: float, now: float) -> str:
        return utc_time(self._context.clock.now_ms() - int((now - since) * 1000))


def utc_time(epoch_ms: int) -> str:
    """Format a time as in `2026-11-22 08:00:00 UTC`."""
    return datetime.fromtimestamp(epoch_ms // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _waits_for(lane: Lane, silent: dict[ClusterRef, float], now: float) -> ClusterRef | None:
    """Return the unresponsive cluster that the lane waits for, or None. A silent source does not block a lane
    that cannot write, because such a lane does not fetch."""
    source, target = lane.spec.source, lane.spec.destination
    if lane.state is LaneState.STARTING:
        # An error that no retry can fix is more important than the cluster that delays the retry.
        has_reason = lane.pause is not None and lane.pause.attempt > 0
        asked = [name for name in (source, target) if name in silent]
        return None if has_reason or not asked else min(asked, key=silent.__getitem__)
    if lane.state not in ACTIVE:
        return None
    if target in silent and (
        lane.ownership.is_identifying or not lane.is_writable or _is_unanswered(lane, now)
    ):
        return target
    if (
        source in silent
        and not lane.read.waits
        and (lane.reader.is_silent(now) if lane.reader else lane.state is LaneState.COPYING)
    ):
        return source
    return None


def _is_unanswered(lane: Lane, now: float) -> bool:
    return any(
        isinstance(item, OutBatch) and item.outstanding and now - item.sent_at >= PATIENCE_SECONDS
        for item in lane.queue.sent
    )
