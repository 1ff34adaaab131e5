"""Starts worker processes, kills hung ones, and restarts crashed ones with increasing delay.

Only one thread uses the pool. Reader threads only put messages into the inbox. Only `stop` blocks.
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

from mirror.loggers import get_logger
from mirror.ports import Clock
from mirror.worker.channel import ChannelWriter, ReaderHeartbeat, WorkerGone, WorkerMessage, read_worker
from mirror.worker.protocol import EXIT_LEASE_OVER, Message, Shutdown, WorkerReady
from mirror.worker.slot import WorkerSilence, WorkerSlot

_log = get_logger(__name__)
_LAST_WORDS_SECONDS: Final = 0.5
"""Maximum seconds to wait for a worker to exit after its channel was closed.

The pool serves no other worker in this time.
"""
_GRACE_SECONDS: Final = 2.0
"""Seconds after its deadline for which a worker process may still exit by itself."""
LEASE_OVER: Final = "its lease expired"

Spawn = Callable[[int, socket.socket], subprocess.Popen[bytes]]
"""Callback that starts worker `number`.

The child process inherits the socket, which the parent closes afterwards.
"""
Inbox = queue.SimpleQueue[object]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Settings of a worker pool: restart delay, and permitted silence of workers.

    `restart_delay_seconds`: delay after the first crash, doubled after each further crash.
    `silence_limit_seconds`: time without messages after which a worker is killed.
    """

    restart_delay_seconds: float
    silence_limit_seconds: float


@dataclass(eq=False)
class PooledWorker:
    """A worker of a pool. It continues to exist when its process is replaced.

    Consists of the process, if it is running, the channel to the process, and the reader and writer threads
    of the channel. The reader updates `pulse`.
    """

    slot: WorkerSlot
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    reader: threading.Thread | None = None
    writer: ChannelWriter | None = None
    pulse: ReaderHeartbeat = field(default_factory=ReaderHeartbeat)

    @property
    def number(self) -> int:
        """Index of the worker in the pool."""
        return self.slot.number

    def send(self, message: Message) -> None:
        """Queue a message to the worker. Raises encoding errors.

        Never blocks, because a slow worker must not delay the leases of other workers.
        """
        if self.writer is not None:
            self.writer.put(message)

    @property
    def has_taken_all(self) -> bool:
        """True if the worker has read all of its messages."""
        return self.writer is None or self.writer.is_idle

    def open(self, channel: socket.socket, inbox: Inbox) -> None:
        """Start the threads that write to the worker's channel and read from it."""
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
        """Close the worker's channel after its threads have ended.

        If a reader still waited on the closed file descriptor, it could read messages of the next socket with
        the same number.
        """
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
        """Kill the worker's process immediately."""
        if self.process is not None:
            if why:
                _log.error("worker killed", worker=self.number, reason=why)
            self.process.kill()


class WorkerPool:
    """Pool of `count` workers, whose processes are restarted, and `spares`, which run only after `launch`.

    `setup`: first message to each process.
    """

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
            WorkerSlot(number, limits.restart_delay_seconds, WorkerSilence(limits.silence_limit_seconds))
            for number in range(count + spares)
        ]
        self.everyone: Sequence[PooledWorker] = [PooledWorker(slot) for slot in slots]
        self.workers, self.spares = self.everyone[:count], self.everyone[count:]

    @property
    def alive(self) -> list[PooledWorker]:
        """Workers that have a process, without spares."""
        return [worker for worker in self.workers if worker.process is not None]

    def start(self) -> None:
        """Start the process of every worker."""
        for worker in self.workers:
            self.launch(worker)

    def launch(self, worker: PooledWorker) -> None:
        """Start a worker's process and its threads. Schedule a retry after a failure."""
        ours, theirs = socket.socketpair()
        now, slot = self._clock.monotonic(), worker.slot
        slot.launch(now)
        worker.pulse = ReaderHeartbeat()
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
        """Remove an exited process, and return how it ended. A failed process is restarted after a delay."""
        assert worker.process is not None
        code = _exit_code(worker.process)
        worker.process = None
        worker.hang_up()
        # An expired lease is ZooKeeper's fault: the next process must be up when ZooKeeper is back.
        delay = worker.slot.end(self._clock.monotonic(), failed=failed and code != EXIT_LEASE_OVER)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        how = LEASE_OVER if code == EXIT_LEASE_OVER else how
        if failed:
            _log.error("worker ended", worker=worker.number, how=how, restart_in_seconds=delay)
        return how

    def speaker(self, item: WorkerMessage | WorkerGone) -> PooledWorker | None:
        """Return the worker that sent the item, or None if the sending process was replaced.

        If the process reports that it is ready, its data plane is recorded.
        """
        worker = self.everyone[item.worker]
        if item.generation != worker.slot.generation or worker.process is None:
            return None
        if isinstance(item, WorkerMessage) and isinstance(item.message, WorkerReady):
            worker.slot.data_plane = item.message.data_plane
            worker.slot.has_started = True
        return worker

    def send(self, worker: PooledWorker, message: Message) -> None:
        """Queue a message to a worker. Never blocks."""
        worker.send(message)

    def end(
        self, worker: PooledWorker, deadline_seconds: float, grace_seconds: float = _GRACE_SECONDS
    ) -> None:
        """Instruct a worker to drain its lanes until the deadline and exit.

        If the process does not exit, `check` kills it after the grace period.
        """
        now = self._clock.monotonic()
        worker.slot.end_by = now + deadline_seconds + grace_seconds
        worker.send(Shutdown(deadline_seconds))

    def check(self) -> list[PooledWorker]:
        """Kill hung worker processes, and start workers whose restart is due. Return the started workers."""
        started = []
        for worker in self.everyone:
            now = self._clock.monotonic()
            if worker.process is not None:
                self._check_process(worker, worker.process, now)
            elif worker in self.workers and worker.slot.is_due(now):
                self.launch(worker)
                started.append(worker)
        return started

    def _check_process(self, worker: PooledWorker, process: subprocess.Popen[bytes], now: float) -> None:
        slot = worker.slot
        slot.listen(now, worker.pulse.beats, worker.writer.taken if worker.writer is not None else None)
        if process.poll() is not None:
            if slot.is_over(now):
                self._inbox.put(WorkerGone(worker.number, slot.generation))
        elif slot.silence.is_deaf:
            worker.kill("it does not read its messages")
        elif slot.is_overdue(now):
            worker.kill("it did not drain in time")
        elif slot.has_hung(lambda: cpu_seconds(process.pid)):
            worker.kill(f"it has sent nothing for {slot.silence.seconds:.0f} s")

    def kill(self) -> list[PooledWorker]:
        """Kill all worker processes at once. Return the workers that had a process."""
        running = [worker for worker in self.everyone if worker.process is not None]
        for worker in running:
            worker.kill()
        for worker in running:
            self.bury(worker, failed=False)
        return running

    def stop(self, deadline_seconds: float) -> list[PooledWorker]:
        """Let every worker drain its lanes until the deadline, kill the remaining ones, and cancel restarts.

        Returns the workers that had a process. Idempotent.
        """
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
    """Return the CPU time of a process, or None if unavailable (without Linux's /proc)."""
    try:
        with open(f"/proc/{process_id}/stat", encoding="ascii", errors="replace") as file:
            behind_name = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(behind_name[11]) + int(behind_name[12])) / os.sysconf("SC_CLK_TCK")


def _exit_code(process: subprocess.Popen[bytes]) -> int:
    """Wait for the exit of a worker that has closed its channel, and return the exit code. Kill it if it does
    not exit."""
    try:
        return process.wait(_LAST_WORDS_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
