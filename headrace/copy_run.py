"""The parent of a copy: plans it, starts the workers, gathers what they say."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from headrace.access import plain
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.worker_protocol import StartLanes, encode_message
from mirror.copying.access import access_from
from mirror.copying.copy_job import CopyJob, CopyPlan, forget_progress, plan_copy, shares
from mirror.copying.options import CopyingOptions
from mirror.copying.workbench import EngineIdentity, Workbench
from mirror.errors import Unreachable
from mirror.model.identifiers import NO_EPOCH, ClusterRef
from mirror.ports import LaneSpec
from mirror.settings import KafkaCluster

T = TypeVar("T")

_TICK_SECONDS: Final = 0.2
_EXIT_SECONDS: Final = 30.0


@dataclass
class CopyProgress:
    """Sums over the workers. `lag` in records; `paused` by partition, with the reason."""

    records: int = 0
    bytes: int = 0
    lag: int = 0
    remaining: int = 0
    paused: dict[str, str] = field(default_factory=dict)


@dataclass
class CopyOutcome:
    """How it ended: a report for each lane, CPU and memory of the workers."""

    lanes: list[dict[str, Any]] = field(default_factory=list)
    cpu_seconds: float = 0.0
    peak_rss_bytes: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CopySetup:
    """What the engines are made with."""

    clusters: Mapping[ClusterRef, KafkaCluster]
    options: CopyingOptions
    identity: EngineIdentity
    log_level: str = "WARNING"


class CopyRun:
    """One copy. `plan`, then `run`; `stop` from any thread."""

    def __init__(self, setup: CopySetup, job: CopyJob, workers: int) -> None:
        self._setup = setup
        self._job = job
        self._workers = workers
        self._clusters = {name: plain(cluster) for name, cluster in setup.clusters.items()}
        self._messages: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._latest: dict[int, dict[str, Any]] = {}
        self.progress = CopyProgress()
        self.outcome = CopyOutcome()

    def plan(self) -> CopyPlan:
        """Look at both sides and prepare the destination. Raises what `plan_copy` raises."""
        return self._with_bench(lambda bench: plan_copy(bench, self._job))

    def forget(self, specs: Sequence[LaneSpec]) -> None:
        """Remove the stored progress of a copy that is complete."""
        self._with_bench(lambda bench: forget_progress(bench, self._job, specs))

    def run(self, specs: Sequence[LaneSpec]) -> Iterator[CopyProgress]:
        """Start the workers; yields a few times a second until all have ended."""
        for share in shares(specs, self._workers):
            self._start(share)
        self.progress.remaining = len(specs)
        running = set(range(len(self._processes)))
        while running:
            self._take_messages(running)
            yield self.progress
        for process in self._processes:
            process.wait(_EXIT_SECONDS)

    def stop(self) -> None:
        """Let the workers drain, checkpoint and end. Idempotent."""
        for process in self._processes:
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()

    def kill(self) -> None:
        """End the workers at once; what they had not checkpointed is compared or copied again later."""
        for process in self._processes:
            process.kill()

    def _with_bench(self, make: Callable[[Workbench], Coroutine[Any, Any, T]]) -> T:
        bench = Workbench(
            lambda reference: access_from(self._clusters[reference]),
            self._setup.options,
            self._setup.identity,
            SystemClock(),
        )
        try:
            return bench.run(make(bench))
        finally:
            bench.close()

    def _start(self, share: Sequence[LaneSpec]) -> None:
        identity = asdict(self._setup.identity)
        del identity["keeps_reports"]
        document = {
            "clusters": self._clusters,
            "options": asdict(self._setup.options),
            "identity": identity,
            "log_level": self._setup.log_level,
        }
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.copy_worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        number = len(self._processes)
        self._processes.append(process)
        process.stdin.write(json.dumps(document).encode() + b"\n")
        process.stdin.write(encode_message(StartLanes(NO_EPOCH, tuple(share))))
        process.stdin.flush()
        threading.Thread(target=self._listen, args=(number, process), name=f"copy-{number}").start()

    def _listen(self, number: int, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._messages.put((number, json.loads(line)))
        self._messages.put((number, None))

    def _take_messages(self, running: set[int]) -> None:
        try:
            number, message = self._messages.get(timeout=_TICK_SECONDS)
        except queue.Empty:
            return
        if message is None:
            running.discard(number)
            if number not in self._latest or self._latest[number].get("kind") != "done":
                self.outcome.failures.append(f"worker {number} died")
            return
        self._take(number, message)

    def _take(self, number: int, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "lane":
            self.outcome.lanes.append(message["report"])
        elif kind == "paused":
            self.progress.paused[message["partition"]] = message["reason"]
        elif kind == "resumed":
            self.progress.paused.pop(message["partition"], None)
        elif kind == "failed":
            self.outcome.failures.append(message["error"])
        else:
            self._latest[number] = message
            if kind == "done":
                self.outcome.cpu_seconds += message["cpu_seconds"]
                self.outcome.peak_rss_bytes.append(message["peak_rss_bytes"])
            else:
                self._add_up()

    def _add_up(self) -> None:
        known = [one for one in self._latest.values() if one["kind"] == "progress"]
        self.progress.records = sum(one["records"] for one in known)
        self.progress.bytes = sum(one["bytes"] for one in known)
        self.progress.lag = sum(one["lag"] for one in known)
        self.progress.remaining = sum(one["remaining"] for one in known)


def died(outcome: CopyOutcome) -> Unreachable | None:
    """What to raise when workers have failed."""
    return Unreachable("; ".join(outcome.failures)) if outcome.failures else None
