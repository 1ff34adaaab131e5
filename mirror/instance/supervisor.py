"""The worker processes of an instance: started, told what to copy, restarted with backoff.

A task lives wholly in one worker. Everything here runs in the follower's thread; reader threads
only put what workers say into the inbox.
"""

from __future__ import annotations

import queue
import socket
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

import structlog

from mirror.coordination.worker_protocol import (
    ExpectLanes,
    ExtendLease,
    LaneNews,
    LaneRate,
    LaneRates,
    Message,
    QuotaShare,
    ShareQuotas,
    Shutdown,
    StartLanes,
    StopLanes,
    TaskSums,
    WorkerReady,
    encode_message,
)
from mirror.instance.worker_reader import WorkerGone, WorkerSaid, read_worker
from mirror.model.identifiers import Epoch, GroupName, TaskName
from mirror.ports import (
    Clock,
    LaneEvent,
    LaneKey,
    LanePaused,
    LaneSpec,
    LaneStopped,
)

_log = structlog.get_logger(__name__)
_LONGEST_RESTART_DELAY_SECONDS: Final = 30.0
_LONGEST_SILENCE_SECONDS: Final = 30.0
"""A worker that takes nothing for so long hangs. Reading checkpoints may take it half of that."""
_LAST_WORDS_SECONDS: Final = 0.5
"""What a worker gets to end by itself once its channel is closed; the others wait meanwhile."""


class LanePhase(StrEnum):
    """Where a lane is between its start and its release."""

    STARTING = "starting"
    COPYING = "copying"
    PAUSED = "paused"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class LaneState:
    """One lane as this instance knows it. `reason`: why it paused."""

    spec: LaneSpec
    worker: int
    phase: LanePhase
    reason: str = ""
    rate: LaneRate | None = None


@dataclass
class _Seat:
    """One place for a worker process, over all its restarts."""

    number: int
    generation: int = 0
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    data_plane: str = ""
    """What its worker runs; empty until that is ready."""
    failures: int = 0
    restart_at: float | None = None
    outgoing: bytearray = field(default_factory=bytearray)
    stuck_since: float | None = None
    lanes: set[LaneKey] = field(default_factory=set)
    expected: set[LaneKey] = field(default_factory=set)
    quotas: Mapping[GroupName, float] = field(default_factory=dict)


Spawn = Callable[[int, socket.socket], subprocess.Popen[bytes]]
"""Starts worker `number`; the child inherits the socket, which the parent closes afterwards."""


class Supervisor:
    """Owns the workers and the state of every lane."""

    def __init__(
        self,
        spawn: Spawn,
        workers: int,
        inbox: queue.SimpleQueue[object],
        clock: Clock,
        restart_delay_seconds: float,
    ) -> None:
        self._spawn = spawn
        self._inbox = inbox
        self._clock = clock
        self._restart_delay = restart_delay_seconds
        self._seats = [_Seat(number) for number in range(workers)]
        self._lanes: dict[LaneKey, LaneState] = {}
        self._task_seat: dict[TaskName, int] = {}
        self._sums: Mapping[TaskName, TaskSums] = {}

    @property
    def task_sums(self) -> Mapping[TaskName, TaskSums]:
        """What each task did here since the start. Safe to read from any thread."""
        return self._sums

    @property
    def inbox(self) -> queue.SimpleQueue[object]:
        """Where reader threads put what workers say; the follower empties it."""
        return self._inbox

    @property
    def lanes(self) -> Mapping[LaneKey, LaneState]:
        """Every lane that a worker was told to copy and has not released."""
        return self._lanes

    @property
    def workers_running(self) -> int:
        """Worker processes that are alive."""
        return sum(seat.process is not None for seat in self._seats)

    @property
    def is_ready(self) -> bool:
        """Whether a worker is there, and every one that is there has started up."""
        alive = [seat for seat in self._seats if seat.process is not None]
        return bool(alive) and all(seat.data_plane for seat in alive)

    @property
    def data_planes(self) -> frozenset[str]:
        """What the workers that are ready run: compiled, interpreted. Safe to read from any thread."""
        return frozenset(seat.data_plane for seat in self._seats if seat.data_plane)

    def start(self) -> None:
        """Start every worker."""
        for seat in self._seats:
            self._launch(seat)

    def expect_lanes(self, specs: Iterable[LaneSpec]) -> None:
        """These, and no others, are waited for: let the workers of their tasks get ready."""
        for seat in self._seats:
            seat.expected.clear()
        for number, batch in self._dealt(specs, lambda seat: seat.expected).items():
            self._send(self._seats[number], ExpectLanes(tuple(batch)))

    def start_lanes(self, specs: Iterable[LaneSpec], epoch: Epoch) -> None:
        """Give lanes to the workers of their tasks; those whose worker is down wait for the next call."""
        for number, batch in self._dealt(specs, lambda seat: seat.lanes).items():
            for spec in batch:
                self._seats[number].expected.discard(spec.key)
                self._lanes[spec.key] = LaneState(spec, number, LanePhase.STARTING)
            self._send(self._seats[number], StartLanes(epoch, tuple(batch)))

    def stop_lanes(self, keys: Iterable[LaneKey]) -> None:
        """Ask workers to release lanes; they stay in `lanes` until the worker says so."""
        batches: dict[int, list[LaneKey]] = {}
        for key in keys:
            state = self._lanes[key]
            self._lanes[key] = replace(state, phase=LanePhase.STOPPING)
            batches.setdefault(state.worker, []).append(key)
        for number, batch in batches.items():
            self._send(self._seats[number], StopLanes(tuple(batch)))

    def share_quotas(self, by_task: Mapping[GroupName, float]) -> None:
        """Let every worker copy so many bytes a second for each task that it has of these groups."""
        for seat in self._seats:
            lanes = seat.lanes if by_task else ()
            tasks = {(key.group, self._lanes[key].spec.task) for key in lanes if key.group in by_task}
            counts = Counter(group for group, _ in tasks)
            quotas = {group: count * by_task[group] for group, count in counts.items()}
            if quotas != seat.quotas:
                self._send(seat, ShareQuotas(tuple(QuotaShare(*pair) for pair in quotas.items())))
                seat.quotas = quotas

    def extend_lease(self, until: float) -> None:
        """Let every worker write until that moment of the monotonic clock."""
        for seat in self._seats:
            self._send(seat, ExtendLease(until))

    def handle(self, item: WorkerSaid | WorkerGone) -> None:
        """Take in what a reader thread put into the inbox."""
        seat = self._seats[item.worker]
        if item.generation != seat.generation or seat.process is None:
            return  # of a worker that has been buried already
        if isinstance(item, WorkerGone):
            self._bury(seat)
            return
        match item.message:
            case WorkerReady(data_plane):
                seat.data_plane = data_plane
            case LaneNews(events):
                for event in events:
                    self._note(seat, event)
            case LaneRates(rates, sums):
                seat.failures = 0
                self._add(sums)
                for rate in rates:
                    if rate.key in self._lanes:
                        self._lanes[rate.key] = replace(self._lanes[rate.key], rate=rate)
            case other:
                raise AssertionError(f"a worker does not say {type(other).__name__}")

    def _add(self, sums: Iterable[TaskSums]) -> None:
        known = dict(self._sums)
        for one in sums:
            before = known.get(one.task)
            known[one.task] = before.plus(one) if before else one
        self._sums = known

    def revive(self) -> None:
        """Start the workers whose restart delay is over, and kill the ones that do not listen any more."""
        now = self._clock.monotonic()
        for seat in self._seats:
            if seat.process is None:
                if seat.restart_at is not None and now >= seat.restart_at:
                    self._launch(seat)
                continue
            self._flush(seat)
            if seat.stuck_since is not None and now - seat.stuck_since >= _LONGEST_SILENCE_SECONDS:
                _log.error("worker killed: it does not listen", worker=seat.number)
                seat.process.kill()

    def abandon(self) -> None:
        """Kill every worker at once: nothing of ours may write any more."""
        for seat in self._seats:
            if seat.process is not None:
                seat.process.kill()
                self._bury(seat, failed=False)

    def stop(self, deadline_seconds: float) -> None:
        """Let every worker drain up to the deadline, then end what is left. Safe to call twice."""
        for seat in self._seats:
            seat.restart_at = None
            if seat.process is not None:
                self._send(seat, Shutdown(deadline_seconds))
        until = self._clock.monotonic() + deadline_seconds + 2.0
        for seat in self._seats:
            if seat.process is not None:
                try:
                    seat.process.wait(timeout=max(0.1, until - self._clock.monotonic()))
                except subprocess.TimeoutExpired:
                    _log.warning("worker killed: it did not drain in time", worker=seat.number)
                    seat.process.kill()
                self._bury(seat, failed=False)
                seat.restart_at = None

    def _launch(self, seat: _Seat) -> None:
        ours, theirs = socket.socketpair()
        seat.generation += 1
        try:
            seat.process = self._spawn(seat.number, theirs)
        except OSError as error:
            ours.close()
            delay = self._put_off(seat, failed=True)
            _log.error("worker cannot start", worker=seat.number, reason=str(error), retry_in_seconds=delay)
            return
        finally:
            theirs.close()
        seat.channel = ours
        seat.restart_at = None
        threading.Thread(
            target=read_worker,
            args=(ours, seat.number, seat.generation, self._inbox),
            name=f"worker-{seat.number}-reader",
            daemon=True,
        ).start()

    def _bury(self, seat: _Seat, failed: bool = True) -> None:
        assert seat.process is not None
        code = _exit_code(seat.process)
        seat.process = None
        seat.data_plane = ""
        if seat.channel is not None:
            seat.channel.close()
        seat.channel = None
        seat.outgoing.clear()
        seat.stuck_since = None
        for key in seat.lanes:
            self._lanes.pop(key, None)
        seat.lanes.clear()
        seat.expected.clear()
        seat.quotas = {}
        self._task_seat = {task: number for task, number in self._task_seat.items() if number != seat.number}
        delay = self._put_off(seat, failed)
        if failed:
            _log.error("worker ended", worker=seat.number, exit_code=code, restart_in_seconds=delay)

    def _put_off(self, seat: _Seat, failed: bool) -> float:
        """When the next worker of a seat starts; the delay in seconds."""
        seat.failures += failed
        delay = min(self._restart_delay * 2.0 ** max(0, seat.failures - 1), _LONGEST_RESTART_DELAY_SECONDS)
        seat.restart_at = self._clock.monotonic() + (delay if failed else 0.0)
        return delay

    def _note(self, seat: _Seat, event: LaneEvent) -> None:
        state = self._lanes.get(event.key)
        if state is None:
            return
        if isinstance(event, LaneStopped):
            del self._lanes[event.key]
            seat.lanes.discard(event.key)
        elif state.phase is not LanePhase.STOPPING:
            if isinstance(event, LanePaused):
                _log.warning(
                    "lane paused",
                    datastream=event.key.group,
                    partition=str(event.key.partition),
                    reason=event.reason,
                )
                self._lanes[event.key] = replace(state, phase=LanePhase.PAUSED, reason=event.reason)
            else:
                self._lanes[event.key] = replace(state, phase=LanePhase.COPYING, reason="")

    def _dealt(
        self, specs: Iterable[LaneSpec], noted: Callable[[_Seat], set[LaneKey]]
    ) -> dict[int, list[LaneSpec]]:
        """By the worker of their tasks; each counts there at once, so that new tasks are spread."""
        dealt: dict[int, list[LaneSpec]] = {}
        for spec in specs:
            seat = self._seat_for(spec.task)
            if seat is not None:
                dealt.setdefault(seat.number, []).append(spec)
                noted(seat).add(spec.key)
        return dealt

    def _seat_for(self, task: TaskName) -> _Seat | None:
        number = self._task_seat.get(task)
        if number is not None and self._seats[number].process is not None:
            return self._seats[number]
        alive = [seat for seat in self._seats if seat.process is not None]
        if not alive:
            return None
        seat = min(alive, key=lambda one: (len(one.lanes) + len(one.expected), one.number))
        self._task_seat[task] = seat.number
        return seat

    def _send(self, seat: _Seat, message: Message) -> None:
        if seat.channel is not None:
            seat.outgoing += encode_message(message)
            self._flush(seat)

    def _flush(self, seat: _Seat) -> None:
        """Never waits: a worker that takes nothing must not hold up the leases of the others."""
        if seat.channel is None:
            return
        try:
            while seat.outgoing:
                sent = seat.channel.send(seat.outgoing, socket.MSG_DONTWAIT)
                del seat.outgoing[:sent]
                seat.stuck_since = None
        except BlockingIOError:
            if seat.stuck_since is None:
                seat.stuck_since = self._clock.monotonic()
        except OSError:
            seat.outgoing.clear()
            _log.warning("worker does not listen any more", worker=seat.number)


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Of a worker that has closed its channel; one that lives on is killed."""
    try:
        return process.wait(_LAST_WORDS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
