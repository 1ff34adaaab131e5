"""Checks the stored progress of lanes whose ownership no producer epoch proves.

A lane without a producer id, and an exactly-once lane at its clean end, store progress only if no other
engine has stored progress since.
"""

from __future__ import annotations

from collections.abc import Iterable

from mirror.errors import HeadraceError, Unreachable
from mirror.lane.lane import Lane
from mirror.model.identifiers import ClusterRef
from mirror.replication.context import EngineContext
from mirror.replication.lane_runner import LaneRunner
from mirror.replication.lanes.registry import LaneRegistry
from mirror.replication.progress_log import ProgressLog


class UnprovenLanes:
    """Compares lanes with their stored progress before they store more."""

    def __init__(self, context: EngineContext, lanes: LaneRegistry, runner: LaneRunner) -> None:
        self._context = context
        self._lanes = lanes
        self._unsaved = lanes.unsaved
        self._runner = runner

    async def check(
        self, destination: ClusterRef, lanes: Iterable[Lane]
    ) -> tuple[set[Lane], dict[Lane, HeadraceError]]:
        """Read the stored progress of these lanes. Return the lanes that must not store progress because
        another engine has, and those with unreadable progress, with the reasons.

        Restarts the lanes of another engine that are not stopping. Raises Unreachable.
        """
        log = self._context.progress(destination)
        await log.catch_up([lane.key for lane in lanes])
        foreign: set[Lane] = set()
        unreadable: dict[Lane, HeadraceError] = {}
        for lane in lanes:
            try:
                if self._is_foreign(lane, log):
                    foreign.add(lane)
            except Unreachable as error:
                unreadable[lane] = error
            except Exception as error:  # noqa: BLE001 - the progress of the other lanes is stored
                self._runner.set_aside(lane, error)
                foreign.add(lane)
        return foreign, unreadable

    def _is_foreign(self, lane: Lane, log: ProgressLog) -> bool:
        if not self._unsaved.is_foreign(lane, log.stored(lane.key)):
            return False
        if lane not in self._lanes.stopping:
            self._runner.reload(lane, "another owner has stored its progress")
        return True
