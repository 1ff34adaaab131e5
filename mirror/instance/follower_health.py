"""Health of a follower: workers, lanes, the coordination store, and dropped records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.instance.health import Health
from mirror.instance.workers.lane_table import LanePhase, LaneStatus
from mirror.instance.workers.worker_health import WorkerHealth
from mirror.loggers import get_logger
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import Epoch, GroupName
from mirror.model.metrics import Drops
from mirror.wording import counted

_log = get_logger(__name__)
_SLOW_SECONDS: Final = 1.0
"""Response time in seconds above which the coordination store is reported as slow."""
_PART: Final = "follower"
_SESSION_PART: Final = "coordination session"
"""Component of the health report for a slow coordination store."""


class FollowerHealth:
    """Reports the health of an instance's workers, lanes and coordination store, on the follower's thread."""

    def __init__(self, health: Health) -> None:
        self._health = health
        self._is_slow = False
        self._parts: set[str] = set()
        self._drops: Mapping[str, Drops] = {}

    @property
    def drops(self) -> Mapping[str, Drops]:
        """Numbers of measurements and events that this instance could not deliver. Thread-safe."""
        return self._drops

    def report_problem(self, reason: str) -> None:
        """Report in health that the instance cannot follow a plan now."""
        self._health.report(_PART, False, reason)

    def report_workers(
        self, epoch: Epoch, lanes: Mapping[LaneKey, LaneStatus], waiting: int, workers: WorkerHealth
    ) -> None:
        """Report lanes and workers in health while the instance follows a plan. `waiting`: number of lanes
        that the former owner has not released."""
        down, silent, starving = workers.down, workers.silent, workers.starving
        paused = sum(state.phase is LanePhase.PAUSED for state in lanes.values())
        self._health.report(
            _PART,
            not (down or silent or starving),
            f"epoch {epoch}: {counted(len(lanes), 'lane')} in {counted(workers.running, 'worker')}, "
            f"{paused} paused, {waiting} waiting for their former owner"
            + (f"; {counted(down, 'worker')} ended, restart pending" if down else "")
            + (f"; {counted(silent, 'worker does', 'workers do')} not respond" if silent else "")
            + (
                f"; {counted(starving, 'worker')} lost the lease although this instance has one"
                if starving
                else ""
            ),
        )

    def report_store(self, answer_seconds: float, *, is_lease_over: bool) -> None:
        """Report a store that responds slowly. Only a warning within the lease, because copying continues."""
        is_slow = answer_seconds >= _SLOW_SECONDS
        if is_lease_over:
            reason = "has not responded for longer than the lease; lanes stop"
            self._health.report(_SESSION_PART, False, reason)
        elif is_slow:
            self._health.report(
                _SESSION_PART,
                True,
                f"takes {answer_seconds:.1f} s to respond: plans, pauses and moves are delayed, copying "
                "continues",
            )
        else:
            self._health.forget(_SESSION_PART)
        if self._is_slow != is_slow:
            self._is_slow = is_slow
            state = "slow" if is_slow else "fast again"
            _log.warning(f"the coordination store is {state}", answer_seconds=round(answer_seconds, 1))

    def report_drops(self, drops: Mapping[str, Drops]) -> None:
        """Report undelivered measurements and events. Only a warning, because copying continues."""
        self._drops = drops
        for kind, dropped in drops.items():
            part = f"{kind} records"
            if dropped.reason:
                count = counted(dropped.count, f"entry of {kind} was", f"entries of {kind} were")
                sentence = f"{count} dropped since the start, but no mirrored record: {dropped.reason}"
                self._health.report(part, True, sentence)
            else:
                self._health.forget(part)

    def report_troubles(self, troubles: Mapping[GroupName, str]) -> None:
        """Report the groups with stalled lanes to the health status, replacing the previous report."""
        parts = {f"lanes of {group}": reason for group, reason in troubles.items()}
        for part in self._parts - parts.keys():
            self._health.forget(part)
        for part, reason in parts.items():
            self._health.report(part, False, reason)
        self._parts = set(parts)
