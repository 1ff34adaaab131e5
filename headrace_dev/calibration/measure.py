"""Measures the CPU time of one worker that copies prepared topics, one batch shape after another."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.copy.run import CopyProgress, CopyRun, CopySetup
from headrace_dev.calibration.source import BatchShape, GrowingTopic
from mirror.adapters.kafka.access import access_of
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.system_clock import SystemClock
from mirror.errors import HeadraceError, Unreachable
from mirror.jobs.copy_job import CopyJob
from mirror.model.capacity.costs import CostSums
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicSelection
from mirror.protocol.batches.compression import Codec
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from mirror.settings import KafkaCluster
from mirror.worker.pool import PoolLimits
from stack.kafka import KafkaCluster as Brokers
from stack.kafka import NodePorts
from stack.process.parallel import for_each
from stack.server import Jvm

SHAPES: Final = (
    BatchShape("one", Codec.NONE, 1),
    BatchShape("ten", Codec.NONE, 10),
    BatchShape("hundred", Codec.NONE, 100),
    BatchShape("hundred-lz4", Codec.LZ4, 100),
    BatchShape("hundred-zstd", Codec.ZSTD, 100),
)
_SOURCE, _DESTINATION = ClusterRef("source"), ClusterRef("destination")
_ROUNDS: Final = 3
_PATIENCE_SECONDS: Final = 60.0
"""Maximum time without progress; a broker that has just started can be slow."""
_SIGMAS: Final = 2.0


@dataclass(frozen=True)
class Calibration:
    """Rate at which one core copies a batch shape. `low`, `high`: `bytes_per_second` minus and plus twice its
    standard error; `cpu_seconds`: measured CPU time of the worker."""

    shape: BatchShape
    bytes_per_second: float
    records_per_second: float
    low: float
    high: float
    batch_bytes: float
    cpu_seconds: float


@contextmanager
def brokers() -> Iterator[Mapping[ClusterRef, KafkaCluster]]:
    """Run two local clusters of one broker each, and delete them and their data on exit. Raises errors of the
    stack, for example if Java is missing."""
    with tempfile.TemporaryDirectory(prefix="headrace-calibrate-") as folder:
        jvm = Jvm(heap_mib=512, quick_start=True)
        both = [
            Brokers(name, Path(folder) / name, [NodePorts.free()], jvm=jvm)
            for name in (_SOURCE, _DESTINATION)
        ]
        try:
            for_each(both, Brokers.start)
            yield {ClusterRef(side.name): KafkaCluster(bootstrap_servers=side.address) for side in both}
        finally:
            for_each(both, Brokers.kill)


def calibrate(
    clusters: Mapping[ClusterRef, KafkaCluster], seconds: float, report: Callable[[str], None]
) -> list[Calibration]:
    """Measure every shape in about `seconds` in total; half of the time is used for writing. Raises
    HeadraceError."""
    identity = EngineIdentity("calibration", "headrace-calibrate", replication_factor=1)
    setup = CopySetup(clusters, CopyingOptions(), identity, PoolLimits(1.0, 20.0))
    bench = EngineContext(lambda name: access_of(clusters[name]), setup.options, identity, SystemClock())
    try:
        topics = [GrowingTopic(bench, _SOURCE, shape) for shape in SHAPES]
        with closing(KafkaAdmin(clusters[_SOURCE], 1)) as admin:
            for topic in topics:
                topic.create(admin)
        written = sum(topic.add(0.0) for topic in topics)  # so that the plan includes all partitions
        job = CopyJob("calibration", _SOURCE, _DESTINATION, TopicSelection("calibrate-.*"))
        run = CopyRun(setup, job, 1)
        with closing(run.run(run.plan().specs)) as steps:
            copying = _Copying(run, steps, written)
            return [copying.measure(topic, seconds / 2 / len(topics), report) for topic in topics]
    finally:
        bench.close()


class _Copying:
    """A running copy by one worker, from which the rate of each topic is measured. `written`: bytes already
    written to each topic."""

    def __init__(self, run: CopyRun, steps: Generator[CopyProgress], written: int) -> None:
        self._run = run
        self._steps = steps
        self._written = written
        self._wait_until_copied()

    def measure(self, topic: GrowingTopic, seconds: float, report: Callable[[str], None]) -> Calibration:
        """Write to the topic for `seconds`, in rounds, and return the rate at which the worker copies the
        topic."""
        report(f"batches of {topic.shape.records}, {topic.shape.codec.name.lower()}")
        return _rate(topic.shape, [self._round(topic, seconds / _ROUNDS) for _ in range(_ROUNDS)])

    def _round(self, topic: GrowingTopic, seconds: float) -> tuple[CalibrationSample, CalibrationSample]:
        """Suspend the worker while records are written, so that it afterwards copies at full speed."""
        self._signal(signal.SIGSTOP)
        try:
            self._written += topic.add(seconds)
            before = self._sample()
        finally:
            self._signal(signal.SIGCONT)
        self._wait_until_copied()
        return before, self._sample()

    def _wait_until_copied(self) -> None:
        copied, end = -1, time.monotonic()
        while self._run.progress.bytes < self._written:
            if self._run.progress.bytes > copied:
                copied, end = self._run.progress.bytes, time.monotonic() + _PATIENCE_SECONDS
            if next(self._steps, None) is None:
                raise HeadraceError(f"the copy ended: {', '.join(self._run.outcome.failures) or 'early'}")
            if time.monotonic() > end:
                reasons = self._run.progress.reasons
                raise Unreachable(f"the copy makes no progress: {reasons or 'unknown reason'}")

    def _signal(self, number: signal.Signals) -> None:
        for process_id in self._run.process_ids:
            os.kill(process_id, number)

    def _sample(self) -> CalibrationSample:
        used, progress = sum(map(used_seconds, self._run.process_ids)), self._run.progress
        return CalibrationSample(time.monotonic(), used, progress.bytes, progress.records)


def used_seconds(process_id: int) -> float:
    """Return the CPU time of a process, including terminated threads, from the kernel's clock of the process
    (clock_getcpuclockid(3), nanosecond resolution). Raises HeadraceError if the system does not provide this
    clock."""
    try:
        return time.clock_gettime(~process_id << 3 | 2)
    except (AttributeError, OSError) as error:
        raise HeadraceError(
            f"cannot read the CPU time of process {process_id}: {error}",
            advice="calibrate on Linux; on Linux, this error means that the process has exited",
        ) from error


def _rate(shape: BatchShape, rounds: Sequence[tuple[CalibrationSample, CalibrationSample]]) -> Calibration:
    found = sums_of(rounds, shape.records)
    rate, margin = found.bytes_per_core_second, _SIGMAS * found.error
    return Calibration(
        shape=shape,
        bytes_per_second=rate,
        records_per_second=found.records / found.cpu_seconds,
        low=max(rate - margin, 0.0),
        high=rate + margin,
        batch_bytes=found.bytes / max(found.batches, 1),
        cpu_seconds=found.cpu_seconds,
    )


@dataclass(frozen=True)
class CalibrationSample:
    """Counters of the copy at one time, since its start. `at`: monotonic seconds."""

    at: float
    cpu_seconds: float
    bytes: int
    records: int


def sums_of(rounds: Sequence[tuple[CalibrationSample, CalibrationSample]], batch_records: int) -> CostSums:
    """Add up the CPU cost of copying in all rounds, each given by two samples. Raises HeadraceError if
    nothing was copied or no CPU time was measured."""
    found: CostSums | None = None
    for sooner, later in rounds:
        seconds, cpu = later.at - sooner.at, later.cpu_seconds - sooner.cpu_seconds
        copied, records = later.bytes - sooner.bytes, later.records - sooner.records
        costs = CostSums.of(seconds, cpu, copied, records, records / batch_records, 0.0)
        found = found.plus(costs) if found else costs
    if found is None or not found.bytes or not found.cpu_seconds:
        raise HeadraceError("too little data was copied for a measurement", advice="increase --seconds")
    return found
