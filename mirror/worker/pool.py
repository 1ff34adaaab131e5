"""Worker processes: started, talked to, killed when they hang, started again with a growing delay.

Used by one thread; the threads that read what workers say only put it into the inbox. Nothing here waits,
except `stop`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog

from mirror.ports import Clock
from mirror.worker.message_queue import ChannelWriter
from mirror.worker.protocol import EXIT_LEASE_OVER, Message, Shutdown, WorkerReady
from mirror.worker.reader import Pulse, WorkerGone, WorkerSaid, read_worker
from mirror.worker.slot import WorkerSlot

_log = structlog.get_logger(__name__)
_LAST_WORDS_SECONDS: Final = 0.5
"""What a worker gets to end by itself once its channel is closed; the others wait meanwhile."""
_GRACE_SECONDS: Final = 2.0
"""What a worker that was told to end gets beyond its deadline."""
LEASE_OVER: Final = "its lease was over"

Spawn = Callable[[int, socket.socket], subprocess.Popen[bytes]]
"""Starts worker `number`; the child inherits the socket, which the parent closes afterwards."""
Inbox = queue.SimpleQueue[object]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """`restart_delay_seconds`: after a first death, before it doubles; `silence_limit_seconds`: a worker that
    says nothing for this time is killed."""

    restart_delay_seconds: float
    silence_limit_seconds: float


@dataclass(eq=False)
class PooledWorker:
    """One place of a pool: its process, if there is one, the channel to it, and the threads that write to
    that channel and read from it; the latter writes `pulse`."""

    slot: WorkerSlot
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    reader: threading.Thread | None = None
    writer: ChannelWriter | None = None
    pulse: Pulse = field(default_factory=Pulse)

    @property
    def number(self) -> int:
        """Its place in the pool."""
        return self.slot.number

    def send(self, message: Message) -> None:
        """Hand a message over; never waits: a worker that takes nothing must not hold up the leases of the
        others. Raises what encoding raises."""
        if self.writer is not None:
            self.writer.put(message)

    @property
    def has_taken_all(self) -> bool:
        """Whether the worker has taken everything that it was sent."""
        return self.writer is None or self.writer.is_idle

    def open(self, channel: socket.socket, inbox: Inbox) -> None:
        """Begin to write to the channel, and to read from it."""
        self.channel = channel
        self.writer = ChannelWriter(channel, self.number)
        self.writer.start()
        reader = threading.Thread(
            target=read_worker,
            args=(channel, self.number, self.slot.generation, inbox, self.pulse),
            name=f"worker-{self.number}-reader",
            daemon=True,
        )
        reader.start()
        self.reader = reader

    def hang_up(self) -> None:
        """Close the channel, once its threads have ended. A reader that is about to wait for the number of a
        closed socket would wait for the next one with that number, and take what its reader should hear."""
        if self.channel is None:
            return
        if self.writer is not None:
            self.writer.close()
        with contextlib.suppress(OSError):
            self.channel.shutdown(socket.SHUT_RDWR)
        for thread in (self.writer, self.reader):
            if thread is not None:
                thread.join()
        self.channel.close()
        self.channel = self.reader = self.writer = None

    def kill(self, why: str = "") -> None:
        """End the process at once."""
        if self.process is not None:
            if why:
                _log.error("worker killed", worker=self.number, reason=why)
            self.process.kill()


class WorkerPool:
    """`count` workers that are kept running, and `spares` that run when they are launched. `setup`: what each
    process is sent first of all."""

    def __init__(
        self,
        spawn: Spawn,
        count: int,
        inbox: Inbox,
        clock: Clock,
        limits: PoolLimits,
        *,
        spares: int = 0,
        setup: Message | None = None,
    ) -> None:
        self._spawn = spawn
        self._inbox = inbox
        self._clock = clock
        self._setup = setup
        slots = [
            WorkerSlot(number, limits.restart_delay_seconds, limits.silence_limit_seconds)
            for number in range(count + spares)
        ]
        self.everyone: Sequence[PooledWorker] = [PooledWorker(slot) for slot in slots]
        self.workers, self.spares = self.everyone[:count], self.everyone[count:]

    @property
    def alive(self) -> list[PooledWorker]:
        """Workers that have a process; spares do not count."""
        return [worker for worker in self.workers if worker.process is not None]

    def start(self) -> None:
        """Start every worker."""
        for worker in self.workers:
            self.launch(worker)

    def launch(self, worker: PooledWorker) -> None:
        """Start the process and the thread that reads what it says; on failure, try again later."""
        ours, theirs = socket.socketpair()
        now, slot = self._clock.monotonic(), worker.slot
        slot.launch(now)
        worker.pulse = Pulse()
        try:
            worker.process = self._spawn(worker.number, theirs)
            slot.is_unborn = False
            worker.open(ours, self._inbox)
            if self._setup is not None:
                worker.send(self._setup)
        except Exception as error:  # noqa: BLE001 - the bulkhead around one worker
            reason = f"{type(error).__name__}: {error}"
            _log.error("worker cannot start", worker=worker.number, reason=reason)
            if worker.process is not None:
                worker.process.kill()
                self.bury(worker, failed=True)
            else:
                ours.close()
                slot.end(now, failed=True)
                slot.is_unborn = True
        finally:
            theirs.close()

    def bury(self, worker: PooledWorker, *, failed: bool) -> str:
        """Forget the process; says how it ended. A failed one is replaced after a delay."""
        assert worker.process is not None
        code = _exit_code(worker.process)
        worker.process = None
        worker.hang_up()
        # The end of a lease is ZooKeeper's fault: its successor must be up when ZooKeeper is back.
        delay = worker.slot.end(self._clock.monotonic(), failed=failed and code != EXIT_LEASE_OVER)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        how = LEASE_OVER if code == EXIT_LEASE_OVER else how
        if failed:
            _log.error("worker ended", worker=worker.number, how=how, restart_in_seconds=delay)
        return how

    def speaker(self, item: WorkerSaid | WorkerGone) -> PooledWorker | None:
        """Whose process said it; None for one that is buried already. That it is ready is noted."""
        worker = self.everyone[item.worker]
        if item.generation != worker.slot.generation or worker.process is None:
            return None
        if isinstance(item, WorkerSaid) and isinstance(item.message, WorkerReady):
            worker.slot.data_plane = item.message.data_plane
            worker.slot.has_started = True
        return worker

    def send(self, worker: PooledWorker, message: Message) -> None:
        """Hand a message over; never waits."""
        worker.send(message)

    def end(
        self, worker: PooledWorker, deadline_seconds: float, grace_seconds: float = _GRACE_SECONDS
    ) -> None:
        """Let the worker drain up to the deadline and end; `look` kills one that has not after the grace."""
        now = self._clock.monotonic()
        worker.slot.end_by = now + deadline_seconds + grace_seconds
        worker.send(Shutdown(deadline_seconds))

    def look(self) -> list[PooledWorker]:
        """Kill what hangs, start what is due; returns the workers that were started."""
        started = []
        for worker in self.everyone:
            now = self._clock.monotonic()
            if worker.process is not None:
                self._look_at(worker, worker.process, now)
            elif worker in self.workers and worker.slot.is_due(now):
                self.launch(worker)
                started.append(worker)
        return started

    def _look_at(self, worker: PooledWorker, process: subprocess.Popen[bytes], now: float) -> None:
        slot = worker.slot
        slot.listen(now, worker.pulse.beats, worker.writer.taken if worker.writer is not None else None)
        if process.poll() is not None:
            if slot.is_over(now):
                self._inbox.put(WorkerGone(worker.number, slot.generation))
        elif slot.is_deaf:
            worker.kill("it does not listen")
        elif slot.is_overdue(now):
            worker.kill("it did not drain in time")
        elif slot.has_hung(lambda: cpu_seconds(process.pid)):
            worker.kill(f"it has said nothing for {slot.silent_seconds:.0f} s")

    def kill(self) -> list[PooledWorker]:
        """End every process at once; returns those that had one."""
        running = [worker for worker in self.everyone if worker.process is not None]
        for worker in running:
            worker.kill()
        for worker in running:
            self.bury(worker, failed=False)
        return running

    def stop(self, deadline_seconds: float) -> list[PooledWorker]:
        """Let every worker drain up to the deadline, then end what is left, and start none any more; returns
        those that had a process. Safe to call twice."""
        running = [worker for worker in self.everyone if worker.process is not None]
        for worker in running:
            self.end(worker, deadline_seconds)
        for worker in running:
            assert worker.process is not None
            assert worker.slot.end_by is not None
            try:
                worker.process.wait(timeout=max(0.1, worker.slot.end_by - self._clock.monotonic()))
            except subprocess.TimeoutExpired:
                worker.kill("it did not drain in time")
            self.bury(worker, failed=False)
        for worker in self.everyone:
            worker.slot.restart_at = None
        return running


def cpu_seconds(process_id: int) -> float | None:
    """CPU time that a process has used; None where the system does not say (/proc is Linux's)."""
    try:
        with open(f"/proc/{process_id}/stat", encoding="ascii", errors="replace") as file:
            behind_name = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(behind_name[11]) + int(behind_name[12])) / os.sysconf("SC_CLK_TCK")


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Of a worker that has closed its channel; one that lives on is killed."""
    try:
        return process.wait(_LAST_WORDS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
