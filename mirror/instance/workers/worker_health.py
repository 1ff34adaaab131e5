"""Health of the worker processes of an instance, and the measurements that they report."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from mirror.model.identifiers import ClusterRef, GroupName, TaskName
from mirror.model.metrics import Drops, total_of
from mirror.model.movement.clock_skew import ClockSkew
from mirror.ports import Clock
from mirror.worker.pool import WorkerPool
from mirror.worker.protocol import LaneRates, TaskSums


class WorkerCount(NamedTuple):
    """Numbers of running, missing and crashed worker processes. Crashes since the start of the instance
    include failed starts, but not expired leases."""

    running: int
    down: int
    deaths: int


class WorkerHealth:
    """Counts worker processes in each condition, and reports their readiness."""

    def __init__(self, pool: WorkerPool, clock: Clock) -> None:
        self._pool = pool
        self._clock = clock

    @property
    def running(self) -> int:
        """Number of running worker processes, without isolation workers."""
        return len(self._pool.alive)

    @property
    def down(self) -> int:
        """Number of worker processes that should run but do not."""
        return len(self._pool.workers) - self.running

    @property
    def count(self) -> WorkerCount:
        """Current counts of running, missing and crashed workers."""
        deaths = sum(worker.slot.deaths for worker in self._pool.everyone)
        return WorkerCount(self.running, self.down, deaths)

    @property
    def silent(self) -> int:
        """Number of running worker processes that do not respond."""
        return sum(worker.slot.is_silent for worker in self._pool.everyone)

    @property
    def starving(self) -> int:
        """Number of worker processes whose lease repeatedly ended although the instance has one."""
        now = self._clock.monotonic()
        return sum(worker.slot.is_starving(now) for worker in self._pool.everyone)

    @property
    def start_problem(self) -> str:
        """Reason why worker processes cannot start, or an empty string. Crashes by copied data are
        ignored."""
        slots = [worker.slot for worker in self._pool.workers]
        if not any(slot.has_started for slot in slots):
            return "no process has started yet"
        return "cannot start a process" if all(slot.is_unborn for slot in slots) else ""

    @property
    def is_ready(self) -> bool:
        """Return whether workers run and all are ready."""
        alive = self._pool.alive
        return bool(alive) and all(worker.slot.data_plane for worker in alive)

    @property
    def data_planes(self) -> frozenset[str]:
        """Data planes (compiled or interpreted) that the ready workers use."""
        planes = (worker.slot.data_plane for worker in self._pool.everyone)
        return frozenset(plane for plane in planes if plane)


_CLOCK_SECONDS: Final = 60.0
"""Seconds for which a clock skew is valid; workers report it with every measurement."""

_DRAIN_SECONDS: Final = 600.0
"""Seconds after the deletion of a group in which workers may report the last sums of its lanes."""


class WorkerMeasurements:
    """Sums of worker measurements for each task and cluster since the start, and latest clock skews."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._sums: Mapping[TaskName, TaskSums] = {}
        self._forgotten: dict[GroupName, float] = {}
        """Time at which each deleted group was forgotten."""
        self._throttled: Mapping[ClusterRef, float] = {}
        self._clocks: Mapping[ClusterRef, tuple[float, ClockSkew]] = {}
        self._drops: dict[int, Drops] = {}
        """Undelivered reports of each running worker process."""
        self._dropped_before = 0
        """Number of undelivered reports of former worker processes."""

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """Sums of measurements of each task, for existing groups."""
        return self._sums

    @property
    def throttled_seconds(self) -> Mapping[ClusterRef, float]:
        """Seconds for which the brokers of each cluster throttled, summed over all workers."""
        return self._throttled

    @property
    def clock_skews(self) -> Mapping[ClusterRef, ClockSkew]:
        """Latest clock skew between a broker and this host for each cluster, without outdated values."""
        since = self._clock.monotonic() - _CLOCK_SECONDS
        return {cluster: skew for cluster, (at, skew) in self._clocks.items() if at >= since}

    @property
    def drops(self) -> Drops:
        """Number of undelivered reports about lanes, with the reason that a running worker reports."""
        by_worker = (self._drops[worker] for worker in sorted(self._drops))
        return total_of([Drops(self._dropped_before), *by_worker])

    def forget(self, groups: Set[GroupName]) -> None:
        """Drop the sums of deleted groups, and ignore their later measurements. The last measurements of a
        worker arrive after the deletion of a datastream."""
        now = self._clock.monotonic()
        recent = {group: at for group, at in self._forgotten.items() if now - at < _DRAIN_SECONDS}
        self._forgotten = recent | dict.fromkeys(groups, now)
        self._sums = {task: total for task, total in self._sums.items() if total.group not in groups}

    def expect(self, group: GroupName) -> None:
        """Count the measurements of a group again, because its lanes start."""
        self._forgotten.pop(group, None)

    def add(self, rates: LaneRates) -> None:
        """Add the measurements that a worker made in one interval."""
        sums = dict(self._sums)
        for more in rates.sums:
            if more.group not in self._forgotten:
                sums[more.task] = sums[more.task].plus(more) if more.task in sums else more
        self._sums = sums
        known = self._throttled
        more_seconds = {
            throttled.cluster: known.get(throttled.cluster, 0.0) + throttled.seconds
            for throttled in rates.throttled
        }
        self._throttled = {**known, **more_seconds}
        now = self._clock.monotonic()
        self._clocks = {**self._clocks, **{clock.cluster: (now, clock.skew) for clock in rates.clocks}}

    def note_drops(self, worker: int, drops: Drops) -> None:
        """Set the number of reports that the process of a worker could not deliver."""
        self._drops[worker] = drops

    def worker_ended(self, worker: int) -> None:
        """Keep the number of undelivered reports of a worker whose process has ended."""
        self._dropped_before += self._drops.pop(worker, Drops()).count
