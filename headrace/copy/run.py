"""Parent process of `headrace copy`: plans the copy, starts the workers and collects their messages."""

from __future__ import annotations

import queue
import socket
import subprocess
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeVar

from headrace.clusters.adhoc import reach
from headrace.process.machine_code import worker_command
from headrace.process.stop_signals import held_back
from mirror.adapters.kafka.access import plain
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import access_from
from mirror.errors import Fenced, HeadraceError
from mirror.jobs.copy_job import CopyJob, CopyPlan, forget_progress, plan_copy, plan_left_out, shares
from mirror.loggers import Level, get_logger
from mirror.model.datastreams.lanes import LaneEvent, LanePaused, LaneResumed, LaneSpec
from mirror.model.identifiers import NO_EPOCH, ClusterRef
from mirror.model.topics import TopicPartition
from mirror.repeats import common_text
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from mirror.replication.transforms import load_transforms
from mirror.settings import KafkaCluster
from mirror.worker.channel import WorkerGone, WorkerMessage
from mirror.worker.pool import Inbox, PooledWorker, PoolLimits, WorkerPool
from mirror.worker.protocol import (
    CopySums,
    LaneNews,
    LaneReports,
    Message,
    StartLanes,
    ThrottledTime,
    WorkerDone,
    WorkerSetup,
)

T = TypeVar("T")

_log = get_logger(__name__)
_TICK_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 20.0
_REPORT_SECONDS: Final = 10.0
"""Time that a drained worker has to report its lanes."""
_RESTARTS: Final = 5
"""Maximum number of consecutive restarts of a worker."""
_FENCED: Final = str(
    Fenced(
        "another copy with the same --state has taken over all partitions of a worker",
        advice="run only one copy per --state",
    )
)


@dataclass
class CopyProgress:
    """Progress of a copy, as sums over its workers.

    `lag`: lag in records. `unknown`: number of partitions with an unknown lag. `paused`: reason for each
    paused partition. `reasons`: every cause of a pause so far (see `common_text`), with the first affected
    partition and its reason. `stuck`: reason for each partition that has paused since the last copied record,
    even if it is retrying. `throttled`: seconds for which broker quotas have throttled a worker, the maximum
    over the workers, by cluster.
    """

    records: int = 0
    bytes: int = 0
    lag: int = 0
    remaining: int = 0
    paused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, tuple[str, str]] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)
    throttled: dict[str, float] = field(default_factory=dict)
    unknown: int = 0


@dataclass
class CopyOutcome:
    """Result of a copy: a report for each lane, and the CPU time and memory of workers.

    `restarts`: number of restarts of workers. Lanes resume from their checkpoints after a restart.
    """

    lanes: list[dict[str, Any]] = field(default_factory=list)
    cpu_seconds: float = 0.0
    peak_rss_bytes: list[int] = field(default_factory=list)
    restarts: int = 0
    failures: list[str] = field(default_factory=list)


class _Share:
    """One worker's part of a copy: its lanes, and the sums that it has reported.

    `left`: unfinished lanes. `latest`: sums of the current process. `before`: sums of earlier processes of
    this worker, which crashed.
    """

    def __init__(self, specs: Sequence[LaneSpec]) -> None:
        self.left = {spec.key.partition: spec for spec in specs}
        self.is_done = False
        self.latest = self.before = CopySums(0, 0, 0, 0)

    def note_death(self) -> None:
        """Add the sums of a dead worker process to the sums of earlier processes (`before`)."""
        throttled = tuple(ThrottledTime(*pair) for pair in self.throttled.items())
        self.before = CopySums(self.records, self.bytes, 0, 0, throttled)
        self.latest = CopySums(0, 0, 0, 0)

    @property
    def records(self) -> int:
        """Records copied by all processes of the worker."""
        return self.before.records + self.latest.records

    @property
    def bytes(self) -> int:
        """Bytes copied by all processes of the worker, as fetched from the source."""
        return self.before.bytes + self.latest.bytes

    @property
    def throttled(self) -> dict[ClusterRef, float]:
        """Seconds for which the brokers of each cluster have throttled the worker's processes."""
        found: dict[ClusterRef, float] = {}
        for cluster, seconds in (*self.before.throttled, *self.latest.throttled):
            found[cluster] = found.get(cluster, 0.0) + seconds
        return found


@dataclass(frozen=True)
class CopySetup:
    """Configuration of the copy engines."""

    clusters: Mapping[ClusterRef, KafkaCluster]
    options: CopyingOptions
    identity: EngineIdentity
    limits: PoolLimits
    log_level: Level = "warning"


class CopyRun:
    """A run of `headrace copy`. Call `plan`, then `run`. `stop` and `kill` may be called from any thread or
    signal handler."""

    def __init__(self, setup: CopySetup, job: CopyJob, workers: int) -> None:
        self._setup = setup
        self._job = job
        self._workers = workers
        self._clusters = {name: plain(cluster) for name, cluster in setup.clusters.items()}
        self._inbox: Inbox = queue.SimpleQueue()
        self._pool = self._pool_of(0)
        self._shares: list[_Share] = []
        self._is_stopping = False
        self._is_killed = False
        self.progress = CopyProgress()
        self.outcome = CopyOutcome()

    def plan(self) -> CopyPlan:
        """Plan the copy, and prepare the topics of the destination.

        Raises the errors of `plan_copy`; ConfigError for a transform that cannot be loaded.
        """
        load_transforms(self._job.policy.transforms)
        sides = self._job.source, self._job.destination
        return self._with_bench(lambda bench: plan_copy(bench, self._job), *sides)

    def plan_left_out(self, plan: CopyPlan) -> CopyPlan | None:
        """Plan the topics again that could not be copied at the first attempt. Returns None if still none can
        be copied, or if the copy was stopped."""
        if self._is_stopping or not plan.failures:
            return None
        try:
            later = self._with_bench(lambda bench: plan_left_out(bench, self._job, plan))
        except HeadraceError as error:
            _log.info("omitted topics still cannot be copied", reason=str(error))
            return None
        return later if later.specs else None

    def forget(self, specs: Sequence[LaneSpec]) -> None:
        """Delete the stored progress of a complete copy."""
        self._with_bench(lambda bench: forget_progress(bench, self._job, specs))

    def run(self, specs: Sequence[LaneSpec]) -> Generator[CopyProgress]:
        """Start the workers, and yield their progress a few times per second until they have ended.

        Closing the generator early kills the workers. `outcome` accumulates over several calls.
        """
        self._inbox = queue.SimpleQueue()  # discard late messages of the workers of an earlier call
        self._shares = [_Share(share) for share in shares(specs, self._workers)]
        self._pool = self._pool_of(len(self._shares))
        self.progress.remaining = len(specs)
        try:
            self._pool.start()
            self._feed(self._pool.workers)
            slots = [worker.slot for worker in self._pool.workers]
            while any(slot.is_running or slot.restart_at is not None for slot in slots):
                self._take_next()
                self._check_workers()
                yield self.progress
        finally:
            self._pool.kill()

    @property
    def process_ids(self) -> list[int]:
        """Process ids of the running workers."""
        return [worker.process.pid for worker in self._pool.workers if worker.process is not None]

    def stop(self) -> None:
        """Signal the workers to drain, checkpoint and exit. Idempotent."""
        self._is_stopping = True

    def kill(self) -> None:
        """Kill the workers at once.

        A later copy compares or repeats the records after the last checkpoints.
        """
        self._is_stopping = self._is_killed = True

    def _with_bench(
        self, make: Callable[[EngineContext], Coroutine[Any, Any, T]], *required: ClusterRef
    ) -> T:
        """Open connections, run a coroutine with them, and close them. `required`: clusters that must respond
        first."""
        bench = EngineContext(
            lambda reference: access_from(self._clusters[reference]),
            self._setup.options,
            self._setup.identity,
            SystemClock(),
        )
        try:
            reach(bench, *required)
            return bench.run(make(bench))
        finally:
            bench.close()

    def _pool_of(self, count: int) -> WorkerPool:
        document = {
            "clusters": self._clusters,
            "options": asdict(self._setup.options),
            "identity": asdict(replace(self._setup.identity, keeps_reports=True)),
            "log_level": self._setup.log_level,
        }
        limits, setup = self._setup.limits, WorkerSetup(document)
        return WorkerPool(_spawn, count, self._inbox, SystemClock(), limits, setup=setup)

    def _feed(self, workers: Iterable[PooledWorker]) -> None:
        for worker in workers:
            specs = tuple(self._shares[worker.number].left.values())
            self._pool.send(worker, StartLanes(NO_EPOCH, specs))

    def _take_next(self) -> None:
        """Process the next message of a worker, or return if none arrives within one tick."""
        try:
            item = self._inbox.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            return
        assert isinstance(item, WorkerMessage | WorkerGone)
        worker = self._pool.speaker(item)
        if worker is None:
            return
        if isinstance(item, WorkerGone):
            self._replace(worker)
        else:
            self._take(worker, item.message)

    def _check_workers(self) -> None:
        """Start the workers whose restart is due, and stop or kill all workers on request.

        A worker that crashes too often is not restarted.
        """
        self._feed(self._pool.check())
        for worker in self._pool.workers:
            slot, is_alive = worker.slot, worker.process is not None
            if is_alive and self._is_killed:
                worker.kill()
            elif is_alive and self._is_stopping and not slot.is_ending:
                self._pool.end(worker, _STOP_SECONDS, _REPORT_SECONDS)
            elif slot.restart_at is not None and (self._is_stopping or slot.failures > _RESTARTS):
                self._give_up(worker)

    def _replace(self, worker: PooledWorker) -> None:
        """Schedule the restart of a dead worker, unless all its lanes are finished."""
        share = self._shares[worker.number]
        self._pool.bury(worker, failed=not worker.slot.is_ending)
        share.note_death()
        if share.is_done:
            worker.slot.restart_at = None
        elif self._is_stopping or not share.left or worker.slot.failures > _RESTARTS:
            self._give_up(worker)
        else:
            self.outcome.restarts += 1
            for place in share.left:
                self._forget(str(place))

    def _give_up(self, worker: PooledWorker) -> None:
        worker.slot.restart_at = None
        self.outcome.failures.append(f"worker {worker.number} died")

    def _take(self, worker: PooledWorker, message: Message) -> None:
        share = self._shares[worker.number]
        match message:
            case LaneNews(events):
                for event in events:
                    self._note(event)
            case LaneReports(reports):
                for report in reports:
                    self._take_report(share, report)
                if not share.left and not worker.slot.is_ending:
                    self._pool.end(worker, _STOP_SECONDS, _REPORT_SECONDS)
            case CopySums(fenced=fenced):
                share.latest = message
                self._add_up()
                if 0 < len(share.left) == fenced and not self._is_stopping:
                    self.outcome.failures.append(_FENCED)
                    self.stop()  # a service manager must see that the copy is incomplete
            case WorkerDone(cpu_seconds, peak_rss_bytes):
                share.is_done = True
                self.outcome.cpu_seconds += cpu_seconds
                self.outcome.peak_rss_bytes.append(peak_rss_bytes)

    def _note(self, event: LaneEvent) -> None:
        partition, progress = str(event.key.partition), self.progress
        if isinstance(event, LanePaused):
            progress.paused[partition] = progress.stuck[partition] = event.text
            progress.reasons.setdefault(common_text(event.reason, partition), (partition, event.text))
        elif isinstance(event, LaneResumed):
            progress.paused.pop(partition, None)

    def _take_report(self, share: _Share, report: dict[str, Any]) -> None:
        """Record the final report of a lane.

        If the lane stopped before its end offset, the reason of its last pause is added.
        """
        place = TopicPartition(report["topic"], report["partition"])
        spec = share.left.pop(place, None)
        end = spec.end_offset if spec is not None else None
        if end is not None and report["next_offset"] < end and not report["reason"]:
            report["reason"] = self.progress.stuck.get(str(place), "")
        self.outcome.lanes.append(report)
        self._forget(str(place))

    def _forget(self, partition: str) -> None:
        self.progress.paused.pop(partition, None)
        self.progress.stuck.pop(partition, None)

    def _add_up(self) -> None:
        shares, progress = self._shares, self.progress
        before = progress.records
        progress.records = sum(share.records for share in shares)
        progress.bytes = sum(share.bytes for share in shares)
        progress.lag = sum(share.latest.lag for share in shares)
        progress.unknown = sum(share.latest.unknown for share in shares)
        progress.remaining = sum(len(share.left) for share in shares)
        for share in shares:
            for cluster, seconds in share.throttled.items():
                progress.throttled[cluster] = max(seconds, progress.throttled.get(cluster, 0.0))
        if progress.records > before:
            progress.stuck = dict(progress.paused)


def _spawn(number: int, channel: socket.socket) -> subprocess.Popen[bytes]:
    """Start a worker process of a copy.

    The stdout of the process is discarded, so that output of libraries cannot mix with the report.
    """
    descriptor = channel.fileno()
    command = worker_command("headrace.copy.worker", str(descriptor))
    with held_back():
        return subprocess.Popen(
            command, pass_fds=[descriptor], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
