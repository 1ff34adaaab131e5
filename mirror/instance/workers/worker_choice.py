"""Chooses a worker process for each task. Used by one thread."""

from __future__ import annotations

from collections.abc import Sequence

from mirror.instance.workers.lane_table import NOBODY, LaneStatus, WorkerShare
from mirror.instance.workers.quarantine import Quarantine
from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.identifiers import GroupName, TaskName
from mirror.ports import Clock
from mirror.worker.pool import PooledWorker, WorkerPool


class WorkerChoice:
    """Chooses the worker with the fewest lanes for a new task, and keeps it until the process ends. Groups in
    quarantine run in an isolation worker, or wait. `shares`: lanes of each worker, read only."""

    def __init__(
        self, pool: WorkerPool, shares: Sequence[WorkerShare], quarantine: Quarantine, clock: Clock
    ) -> None:
        self._pool = pool
        self._shares = shares
        self._quarantine = quarantine
        self._clock = clock
        self._task_worker: dict[TaskName, int] = {}

    def worker_for(self, spec: LaneSpec) -> PooledWorker | None:
        """Return the worker for the lane's task, or None if none is available. Starts an isolation worker if
        needed."""
        place = self._quarantine.place(spec.key.group)
        if place.held:
            return None
        if place.cell is not None:
            return self._opened(self._pool.spares[place.cell])
        number = self._task_worker.get(spec.task)
        if number is not None and self._pool.everyone[number].process is not None:
            return self._pool.everyone[number]
        alive = self._pool.alive
        if not alive:
            return None
        free = [worker for worker in alive if not worker.slot.is_silent] or alive
        chosen = min(free, key=lambda candidate: (self._shares[candidate.number].size, candidate.number))
        self._task_worker[spec.task] = chosen.number
        return chosen

    def _opened(self, cell: PooledWorker) -> PooledWorker | None:
        """Start an isolation worker if needed, and return it. Return None while it is restarting or
        ending."""
        slot = cell.slot
        if cell.process is None and (slot.restart_at is None or slot.is_due(self._clock.monotonic())):
            slot.failures = 0
            self._pool.launch(cell)
        return cell if cell.process is not None and not slot.is_ending else None

    def is_kept(self, state: LaneStatus) -> bool:
        """Return whether the lane runs in the only worker where its quarantine allows it."""
        place = self._quarantine.place(state.spec.key.group)
        if place.held:
            return state.worker == NOBODY
        if place.cell is not None:
            return state.worker == self._pool.spares[place.cell].number
        return 0 <= state.worker < len(self._pool.workers)

    def lacks_process(self, group: GroupName) -> bool:
        """Return whether the group may run, but no process is available to copy it."""
        place = self._quarantine.place(group)
        if place.cell is not None:
            return self._pool.spares[place.cell].process is None
        return not place.held and not self._pool.alive

    def worker_ended(self, number: int) -> None:
        """Release the task assignments of a worker whose process has ended."""
        self._task_worker = {task: at for task, at in self._task_worker.items() if at != number}
