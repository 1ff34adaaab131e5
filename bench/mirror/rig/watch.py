"""Samples a mirror and both brokers at work: records at the destination, CPU, memory."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.mirror.rig.clusters import Pair, Topics
from bench.mirror.rig.engines import Engine

_TICK_SECONDS = 0.04
MIB = 2**20


@dataclass(frozen=True)
class Sample:
    """One sample of a running copy. `cpu`: CPU seconds so far of "mirror", "source" and "target"."""

    at: float
    records: int
    cpu: Mapping[str, float]


@dataclass(frozen=True)
class Drain:
    """Measured copy of one topic. `samples`: from the first with a record at the destination to the last.

    `worker_mib`: peak of the largest child process of the engine, or of the engine itself without children.
    """

    first_record_seconds: float
    start_cpu: float
    samples: list[Sample]
    resident_mib: float
    worker_mib: float

    def cpu_of(self, name: str, since_half: bool = False) -> float:
        """Return the CPU seconds per record, counted from the first record or from half of the records."""
        first, last = self._span(since_half)
        return (last.cpu[name] - first.cpu[name]) / (last.records - first.records)

    def seconds_for(self, records: int) -> float:
        """Return the seconds for this many records at the rate between the first and the last sample."""
        first, last = self._span(False)
        return (last.at - first.at) / (last.records - first.records) * records

    def _span(self, since_half: bool) -> tuple[Sample, Sample]:
        last = self.samples[-1]
        half = last.records / 2 if since_half else 0
        return next(sample for sample in self.samples if sample.records >= half), last


class Watch:
    """Sampler of one mirror and both brokers."""

    def __init__(self, pair: Pair) -> None:
        self._brokers = {
            "source": psutil.Process(pair.source.nodes[0].pid),
            "target": psutil.Process(pair.target.nodes[0].pid),
        }
        self._topics = Topics(pair.target)

    def drain(self, engine: Engine, partitions: int, records: int, timeout_seconds: float = 600.0) -> Drain:
        """Start the engine, wait until all records are at the destination, and stop it."""
        began = time.monotonic()
        with engine.process:
            mirror = psutil.Process(engine.process.pid)
            samples: list[Sample] = []
            while not samples or samples[-1].records < records:
                assert engine.process.is_alive(), engine.process.log_file.read_text(errors="replace")[-3000:]
                assert time.monotonic() - began < timeout_seconds, f"{engine.name} did not finish"
                sample = self._measure(mirror, self._topics.end(engine.target, partitions))
                if sample.records:
                    samples.append(sample)
                time.sleep(_TICK_SECONDS)
            assert samples[-1].records == records, f"{samples[-1].records} records instead of {records}"
            own, *workers = [peak_mib(process) for process in family(mirror)]
        first = samples[0]
        return Drain(
            first.at - began, first.cpu["mirror"], samples, own + sum(workers), max(workers, default=own)
        )

    def _measure(self, mirror: psutil.Process, records: int) -> Sample:
        cpu = {name: cpu_seconds(process) for name, process in self._brokers.items()}
        return Sample(time.monotonic(), records, {**cpu, "mirror": sum(map(cpu_seconds, family(mirror)))})


def family(process: psutil.Process) -> list[psutil.Process]:
    """Return a process and all its descendants."""
    return [process, *process.children(recursive=True)]


def cpu_seconds(process: psutil.Process) -> float:
    """Return the user and system time so far, or 0 if the process has exited."""
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)


def peak_mib(process: psutil.Process) -> float:
    """Return the peak resident size in MiB (VmHWM of Linux)."""
    for line in Path(f"/proc/{process.pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the kernel does not report VmHWM")
