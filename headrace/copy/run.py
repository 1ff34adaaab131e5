"""The parent of a copy: plans it, starts the workers, gathers what they say."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from headrace.clusters.access import plain
from headrace.process.compilation import worker_command
from headrace.process.stop_signals import held_back
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import access_from
from mirror.errors import Unreachable
from mirror.jobs.copy_job import CopyJob, CopyPlan, forget_progress, plan_copy, shares
from mirror.model.identifiers import NO_EPOCH, ClusterRef
from mirror.ports import LaneSpec
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from mirror.replication.transforms import load_transforms
from mirror.settings import KafkaCluster
from mirror.worker.protocol import StartLanes, encode_message

T = TypeVar("T")

_TICK_SECONDS: Final = 0.2
_EXIT_SECONDS: Final = 30.0
_RESTARTS: Final = 5
"""A worker that dies more often than this in a row is not restarted."""
_STEADY_SECONDS: Final = 60.0
"""Seconds. A worker that runs this long did not fail at start-up: its restart counter is reset."""


@dataclass
class CopyProgress:
    """Sums over the workers. `lag` in records; `paused` by partition, with the reason; `reasons`: all that
    there were, each with the partition that paused for it first. `stuck`: partitions that have paused since
    a record was copied last, with the reason, also when they try again just now."""

    records: int = 0
    bytes: int = 0
    lag: int = 0
    remaining: int = 0
    paused: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    stuck: dict[str, str] = field(default_factory=dict)


@dataclass
class CopyOutcome:
    """How it ended: a report for each lane, CPU and memory of the workers that came to their end.

    `restarts`: of workers that died; their lanes went on from their checkpoints.
    """

    lanes: list[dict[str, Any]] = field(default_factory=list)
    cpu_seconds: float = 0.0
    peak_rss_bytes: list[int] = field(default_factory=list)
    restarts: int = 0
    failures: list[str] = field(default_factory=list)


class _WorkerSlot:
    """One worker, which may be restarted. `left`: its lanes that have not come to their end."""

    def __init__(self, share: Sequence[LaneSpec]) -> None:
        self.left = {(spec.key.partition.topic, spec.key.partition.partition): spec for spec in share}
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        self.tries = 0
        self.is_over = False
        self.latest = dict.fromkeys(("records", "bytes", "lag"), 0)
        self.before = {"records": 0, "bytes": 0}

    def note_death(self) -> None:
        """What it has told so far stays counted."""
        for what in self.before:
            self.before[what] += self.latest[what]
        self.latest = dict.fromkeys(self.latest, 0)
        self.tries = 1 if time.monotonic() - self.started_at > _STEADY_SECONDS else self.tries + 1

    def close(self) -> None:
        """Let it drain, checkpoint and end."""
        if self.process is not None and self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it is dead, and has not read everything
                self.process.stdin.close()


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
        self._slots: list[_WorkerSlot] = []
        self._is_stopping = False
        self.progress = CopyProgress()
        self.outcome = CopyOutcome()

    def plan(self) -> CopyPlan:
        """Look at both sides and prepare the destination. Raises what `plan_copy` raises, and ConfigError for
        a transform that cannot be made."""
        load_transforms(self._job.policy.transforms)
        return self._with_bench(lambda bench: plan_copy(bench, self._job))

    def forget(self, specs: Sequence[LaneSpec]) -> None:
        """Remove the stored progress of a copy that is complete."""
        self._with_bench(lambda bench: forget_progress(bench, self._job, specs))

    def run(self, specs: Sequence[LaneSpec]) -> Iterator[CopyProgress]:
        """Start the workers; yields a few times a second until all have ended."""
        self._slots = [_WorkerSlot(share) for share in shares(specs, self._workers)]
        for number, slot in enumerate(self._slots):
            self._start(number, slot)
        self.progress.remaining = len(specs)
        running = set(range(len(self._slots)))
        while running:
            self._take_messages(running)
            yield self.progress
        for process in self._processes():
            process.wait(_EXIT_SECONDS)

    def stop(self) -> None:
        """Let the workers drain, checkpoint and end. Idempotent."""
        self._is_stopping = True
        for slot in self._slots:
            slot.close()

    def kill(self) -> None:
        """End the workers at once; what they had not checkpointed is compared or copied again later."""
        self._is_stopping = True
        for process in self._processes():
            process.kill()

    def _processes(self) -> list[subprocess.Popen[bytes]]:
        return [slot.process for slot in self._slots if slot.process is not None]

    def _with_bench(self, make: Callable[[EngineContext], Coroutine[Any, Any, T]]) -> T:
        bench = EngineContext(
            lambda reference: access_from(self._clusters[reference]),
            self._setup.options,
            self._setup.identity,
            SystemClock(),
        )
        try:
            return bench.run(make(bench))
        finally:
            bench.close()

    def _start(self, number: int, slot: _WorkerSlot) -> None:
        identity = asdict(self._setup.identity)
        del identity["keeps_reports"]
        document = {
            "clusters": self._clusters,
            "options": asdict(self._setup.options),
            "identity": identity,
            "log_level": self._setup.log_level,
        }
        command = worker_command("headrace.copy.worker")
        with held_back():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        slot.process, slot.started_at = process, time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it has died already, which `_listen` finds out
            process.stdin.write(json.dumps(document).encode() + b"\n")
            process.stdin.write(encode_message(StartLanes(NO_EPOCH, tuple(slot.left.values()))))
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
        if message is not None:
            self._take(self._slots[number], message)
        elif not self._replace(number, self._slots[number]):
            running.discard(number)

    def _replace(self, number: int, slot: _WorkerSlot) -> bool:
        """Restart a worker that died; False when its work is done or it died too often."""
        if slot.is_over:
            return False
        slot.note_death()
        if not slot.left or self._is_stopping or slot.tries > _RESTARTS:
            self.outcome.failures.append(f"worker {number} died")
            return False
        for topic, partition in slot.left:
            self._forget(f"{topic}-{partition}")
        self.outcome.restarts += 1
        self._start(number, slot)
        return True

    def _take(self, slot: _WorkerSlot, message: dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "lane":
            self._take_report(slot, message["report"])
        elif kind == "paused":
            self.progress.paused[message["partition"]] = message["reason"]
            self.progress.stuck[message["partition"]] = message["reason"]
            self.progress.reasons.setdefault(message["reason"], message["partition"])
        elif kind == "resumed":
            self.progress.paused.pop(message["partition"], None)
        elif kind == "failed":
            slot.is_over = True
            self.outcome.failures.append(message["error"])
            self.stop()  # a service manager must see that the copy is not whole
        elif kind == "done":
            slot.is_over = True
            self.outcome.cpu_seconds += message["cpu_seconds"]
            self.outcome.peak_rss_bytes.append(message["peak_rss_bytes"])
        else:
            slot.latest = {what: message[what] for what in slot.latest}
            self._add_up()

    def _take_report(self, slot: _WorkerSlot, report: dict[str, Any]) -> None:
        """A lane that stops before its end has a reason, also when it was just trying again."""
        spec = slot.left.pop((report["topic"], report["partition"]), None)
        name = f"{report['topic']}-{report['partition']}"
        end = spec.end_offset if spec is not None else None
        if end is not None and report["next_offset"] < end and not report["reason"]:
            report["reason"] = self.progress.stuck.get(name, "")
        self.outcome.lanes.append(report)
        self._forget(name)

    def _forget(self, partition: str) -> None:
        self.progress.paused.pop(partition, None)
        self.progress.stuck.pop(partition, None)

    def _add_up(self) -> None:
        slots, progress = self._slots, self.progress
        before = progress.records
        progress.records = sum(slot.before["records"] + slot.latest["records"] for slot in slots)
        progress.bytes = sum(slot.before["bytes"] + slot.latest["bytes"] for slot in slots)
        progress.lag = sum(slot.latest["lag"] for slot in slots)
        progress.remaining = sum(len(slot.left) for slot in slots)
        if progress.records > before:
            progress.stuck = dict(progress.paused)


def died(outcome: CopyOutcome) -> Unreachable | None:
    """What to raise when workers have failed."""
    return Unreachable("; ".join(outcome.failures)) if outcome.failures else None
