"""Lanes of an instance, for readers on other threads."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.instance.workers.lane_table import NOBODY, NONE_IN_TIME, LanePhase, LanesInTime, LaneStatus
from mirror.model.datastreams.lanes import LaneKey


class LaneView:
    """All lanes of an instance, as of the last iteration of the follower's loop. The follower's thread
    writes; any thread may read the properties."""

    def __init__(self) -> None:
        self._lanes: Mapping[LaneKey, LaneStatus] = {}
        self._in_time = NONE_IN_TIME
        self._given_up: Mapping[LaneKey, LaneStatus] = {}

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        """Lanes in workers, and lanes that wait for a worker. While the store is unavailable, this also
        includes lanes that were given up."""
        return self._lanes

    @property
    def in_time(self) -> LanesInTime:
        """Summary of the lanes without late records."""
        return self._in_time

    def give_up(self, lanes: Mapping[LaneKey, LaneStatus], why: str) -> None:
        """Show lanes as given up, with the reason. While the store is unreachable, another instance may copy
        these lanes."""
        reason = f"given up because {why}; unknown whether another instance copies the partition"
        given_up = {
            key: LaneStatus(state.spec, NOBODY, LanePhase.WAITING, reason)
            for key, state in lanes.items()
            if state.phase is not LanePhase.STOPPING
        }
        self._given_up = {**self._given_up, **given_up}

    def assignment_known(self) -> None:
        """Drop the lanes that were shown as given up, because the instance knows its assigned lanes again."""
        self._given_up = {}

    def publish(
        self,
        running: Mapping[LaneKey, LaneStatus],
        in_time: LanesInTime,
        waiting: Mapping[LaneKey, LaneStatus],
    ) -> None:
        """Publish the lanes in workers with their summary, and the lanes that wait for a worker."""
        idle = {**self._given_up, **waiting}
        self._lanes = {**idle, **running}
        self._in_time = in_time.beside({key: lane for key, lane in idle.items() if key not in running})
