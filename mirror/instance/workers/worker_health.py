"""Condition of the worker processes of an instance. Safe to read from any thread."""

from __future__ import annotations

from typing import NamedTuple

from mirror.ports import Clock
from mirror.worker.pool import WorkerPool


class WorkerCount(NamedTuple):
    """Numbers of running worker processes, missing worker processes, and crashes.

    Crashes since the start of the instance include failed starts, but not expired leases."""

    running: int
    down: int
    deaths: int


class WorkerHealth:
    """Numbers of worker processes by condition, and their readiness."""

    def __init__(self, pool: WorkerPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    @property
    def running(self) -> int:
        """Number of running worker processes, without cells."""
        return len(self._pool.alive)

    @property
    def down(self) -> int:
        """Number of worker processes that should run but do not."""
        return len(self._pool.workers) - self.running

    @property
    def count(self) -> WorkerCount:
        """Current counts of workers."""
        deaths = sum(worker.slot.deaths for worker in self._pool.everyone)
        return WorkerCount(self.running, self.down, deaths)

    @property
    def silent(self) -> int:
        """Number of running worker processes that do not respond."""
        return sum(worker.slot.is_silent for worker in self._pool.everyone)

    @property
    def starving(self) -> int:
        """Number of worker processes that repeatedly lost their lease although this instance has one."""
        now = self._clock.monotonic()
        return sum(worker.slot.is_starving(now) for worker in self._pool.everyone)

    @property
    def start_problem(self) -> str:
        """Reason why worker processes cannot start, apart from crashes caused by copied data; empty if worker
        processes can start."""
        slots = [worker.slot for worker in self._pool.workers]
        if not any(slot.has_started for slot in slots):
            return "no process has started yet"
        return "cannot start a process" if all(slot.is_unborn for slot in slots) else ""

    @property
    def is_ready(self) -> bool:
        """True if workers are running and all are ready."""
        alive = self._pool.alive
        return bool(alive) and all(worker.slot.data_plane for worker in alive)

    @property
    def data_planes(self) -> frozenset[str]:
        """Data planes (compiled, interpreted) that ready workers run."""
        planes = (worker.slot.data_plane for worker in self._pool.everyone)
        return frozenset(plane for plane in planes if plane)
