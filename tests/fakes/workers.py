"""Worker processes in memory: a supervisor whose lanes the test advances manually."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NoReturn

from mirror.instance.workers.lane_table import LaneLoss, LanePhase, LanesInTime, LaneStatus
from mirror.instance.workers.lane_track import LaneTrack
from mirror.instance.workers.supervisor import Supervisor
from mirror.instance.workers.worker_health import WorkerCount, WorkerHealth
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import Epoch, GroupName, InstanceName
from mirror.worker.channel import WorkerGone, WorkerMessage
from mirror.worker.pool import PoolLimits
from mirror.worker.protocol import LaneRate
from tests.fakes.clock import ManualClock


def _no_process(*_: object) -> NoReturn:
    raise AssertionError("these workers have no processes")


class FakeWorkerHealth(WorkerHealth):
    """Condition of one worker, which the test sets."""

    def __init__(self, workers: FakeWorkers) -> None:
        self._workers = workers

    @property
    def running(self) -> int:
        return int(self._workers.is_up)

    @property
    def start_problem(self) -> str:
        return "" if self._workers.is_up else "cannot start a process"

    @property
    def starving(self) -> int:
        return self._workers.starving

    @property
    def down(self) -> int:
        return int(not self._workers.is_up)

    @property
    def silent(self) -> int:
        return 0

    @property
    def count(self) -> WorkerCount:
        return WorkerCount(self.running, self.down, 0)

    @property
    def is_ready(self) -> bool:
        return self._workers.is_up

    @property
    def data_planes(self) -> frozenset[str]:
        return frozenset({"interpreted"}) if self._workers.is_up else frozenset()


class FakeWorkers(Supervisor):
    """Fake supervisor. `copying`: lanes that really write; an expired lease stops it, as in real workers."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(_no_process, 0, queue.SimpleQueue(), clock, PoolLimits(1.0, 20.0))
        self.health = FakeWorkerHealth(self)
        self._now = clock.monotonic
        self._states: dict[LaneKey, LaneStatus] = {}
        self.is_up = False
        self.may_start = True
        self.lease_until = 0.0
        self.abandoned = self.starving = 0
        self.session_of: InstanceName | None = None
        self.stopped = False
        self.expected: list[LaneKey] = []
        self.quotas: Mapping[GroupName, float] = {}
        self.before_start: Callable[[tuple[LaneSpec, ...], Epoch], None] = lambda *_: None

    @property
    def lanes(self) -> Mapping[LaneKey, LaneStatus]:
        return self._states

    @property
    def in_time(self) -> LanesInTime:
        return LanesInTime.of(self._states)

    @property
    def copying(self) -> frozenset[LaneKey]:
        """Lanes that write at this moment."""
        return frozenset(self._states) if self._now() < self.lease_until else frozenset()

    def start(self) -> None:
        self.is_up = True

    def expect_lanes(self, specs: Iterable[LaneSpec]) -> None:
        self.expected += [spec.key for spec in specs]

    def start_lanes(self, specs: Iterable[LaneSpec], epoch: Epoch, loss: LaneLoss | None = None) -> None:
        chosen = tuple(specs)
        assert self._now() < self.lease_until, "lanes start without a lease"
        self.before_start(chosen, epoch)
        for spec in chosen:
            assert spec.key not in self._states
            self._states[spec.key] = LaneStatus(spec, 0, LanePhase.COPYING, loss=loss)

    def share_quotas(self, by_task: Mapping[GroupName, float]) -> None:
        self.quotas = dict(by_task)

    def stop_lanes(self, keys: Iterable[LaneKey]) -> None:
        for key in keys:
            self._states[key] = replace(self._states[key], phase=LanePhase.STOPPING)

    def drain(self, *keys: LaneKey) -> None:
        """Complete the draining of stopped lanes; without keys: of all."""
        for key, state in tuple(self._states.items()):
            if state.phase is LanePhase.STOPPING and (not keys or key in keys):
                del self._states[key]
        self.inbox.put("drained")

    def measure(self, key: LaneKey, bytes_per_second: float) -> None:
        """Report a rate for a lane."""
        spec = self._states[key].spec
        self.report(LaneRate(key, spec.source, bytes_per_second, 1.0, 0, 0))

    def report(self, rate: LaneRate) -> None:
        """Report for a lane."""
        self._states[rate.key] = replace(self._states[rate.key], track=LaneTrack(rate=rate))

    def pause(self, key: LaneKey, reason: str) -> None:
        """Pause a lane."""
        self._states[key] = replace(self._states[key], phase=LanePhase.PAUSED, reason=reason)

    def extend_lease(self, until: float) -> None:
        self.lease_until = until

    def handle(self, item: WorkerMessage | WorkerGone) -> None:
        raise AssertionError(f"unexpected message {item}")

    def restart_dead(self) -> None:
        self.is_up = self.may_start

    def kill_all(self, session_of: InstanceName | None = None) -> None:
        self.session_of = session_of
        self._states.clear()
        self.abandoned += 1

    def stop(self, deadline_seconds: float) -> None:
        self._states.clear()
        self.stopped = True
