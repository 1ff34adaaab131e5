"""One place for a worker process, over all its restarts: its process, its channel, its lanes."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import structlog

from mirror.model.identifiers import GroupName
from mirror.ports import Drops, LaneKey
from mirror.worker.protocol import EXIT_LEASE_OVER, Message, encode_message
from mirror.worker.reader import Pulse, read_worker

_log = structlog.get_logger(__name__)
_LONGEST_RESTART_DELAY_SECONDS: Final = 30.0
_LONGEST_SILENCE_SECONDS: Final = 30.0
"""A worker that takes nothing for so long hangs. Reading checkpoints may take it half of that."""
_LAST_WORDS_SECONDS: Final = 0.5
"""What a worker gets to end by itself once its channel is closed; the others wait meanwhile."""
LEASE_OVER: Final = "its lease was over"
_LONGEST_LOOK_SECONDS: Final = 2.0
"""Silence counts only while somebody listens. After a longer time between two looks (this process was frozen
too, or had no CPU) what the worker has said meanwhile may still be unread."""
_BUSY_SHARE: Final = 0.05
"""A silent worker that uses this share of a core computes; one that is frozen or hangs uses none."""
_BUSY_PATIENCE: Final = 3.0
"""How many times longer one may be silent that computes, or that starts up: the watchdog in the worker ends
an endless loop before that, and writes where it was."""

Spawn = Callable[[int, socket.socket], subprocess.Popen[bytes]]
"""Starts worker `number`; the child inherits the socket, which the parent closes afterwards."""


@dataclass(eq=False)
class WorkerSeat:
    """Used by one thread; the reader's writes `pulse`. `fed_at`: when lanes were started in the process last,
    or it was; monotonic seconds. `data_plane`: what its worker runs; empty until that is ready.
    `is_ending`: it was told to go. `cpu_at`: seconds of silence and of CPU when the worker was last seen to
    compute. `is_silenced`: it was killed because it said nothing."""

    number: int
    restart_delay_seconds: float
    generation: int = 0
    process: subprocess.Popen[bytes] | None = None
    channel: socket.socket | None = None
    data_plane: str = ""
    is_ending: bool = False
    failures: int = 0
    fed_at: float = 0.0
    restart_at: float | None = None
    outgoing: bytearray = field(default_factory=bytearray)
    stuck_since: float | None = None
    lanes: set[LaneKey] = field(default_factory=set)
    expected: set[LaneKey] = field(default_factory=set)
    pulse: Pulse = field(default_factory=Pulse)
    beats_heard: int = 0
    listened_at: float = 0.0
    silent_seconds: float = 0.0
    cpu_at: tuple[float, float] = (0.0, 0.0)
    is_silenced: bool = False
    quotas: Mapping[GroupName, float] = field(default_factory=dict)
    drops: Drops = field(default_factory=Drops)
    """What its process has said of records that were not delivered."""
    dropped_before: int = 0
    """Records of its former processes."""

    @property
    def all_drops(self) -> Drops:
        """What none of its processes could deliver."""
        return Drops(self.dropped_before + self.drops.count, self.drops.reason)

    @property
    def groups(self) -> frozenset[GroupName]:
        """Datastream groups of its lanes."""
        return frozenset(key.group for key in self.lanes)

    def launch(self, spawn: Spawn, inbox: queue.SimpleQueue[object], now: float) -> None:
        """Start the process and the thread that reads what it says; on failure, try again later."""
        ours, theirs = socket.socketpair()
        self.generation += 1
        self.data_plane = ""
        self.is_ending = False
        self.fed_at = self.listened_at = now
        self.pulse = pulse = Pulse()
        self.beats_heard, self.silent_seconds, self.is_silenced = 0, 0.0, False
        try:
            self.process = spawn(self.number, theirs)
            self.channel = ours
            threading.Thread(
                target=read_worker,
                args=(ours, self.number, self.generation, inbox, pulse),
                name=f"worker-{self.number}-reader",
                daemon=True,
            ).start()
        except Exception as error:  # noqa: BLE001 - the bulkhead around one worker
            reason = f"{type(error).__name__}: {error}"
            if self.process is not None:
                self.process.kill()
                self.bury(now, failed=True)
            else:
                ours.close()
                self._put_off(now, failed=True)
            _log.error("worker cannot start", worker=self.number, reason=reason)
        else:
            self.restart_at = None
        finally:
            theirs.close()

    def bury(self, now: float, failed: bool) -> str:
        """Forget the process and its lanes; says how it ended. A failed one is replaced after a delay."""
        assert self.process is not None
        code = _exit_code(self.process)
        self.process = None
        self.data_plane = ""
        if self.channel is not None:
            self.channel.close()
        self.channel = None
        self.outgoing.clear()
        self.stuck_since = None
        self.lanes.clear()
        self.expected.clear()
        self.quotas = {}
        self.dropped_before += self.drops.count
        self.drops = Drops()
        # The end of a lease is ZooKeeper's fault: its successor must be up when ZooKeeper is back.
        delay = self._put_off(now, failed and code != EXIT_LEASE_OVER)
        how = f"exit code {code}" if code >= 0 else f"signal {-code}"
        how = LEASE_OVER if code == EXIT_LEASE_OVER else how
        if failed:
            _log.error("worker ended", worker=self.number, how=how, restart_in_seconds=delay)
        return how

    def send(self, message: Message, now: float) -> None:
        """Hand a message over; never waits."""
        if self.channel is not None:
            self.outgoing += encode_message(message)
            self.flush(now)

    def flush(self, now: float) -> None:
        """Never waits: a worker that takes nothing must not hold up the leases of the others."""
        if self.channel is None:
            return
        try:
            while self.outgoing:
                sent = self.channel.send(self.outgoing, socket.MSG_DONTWAIT)
                del self.outgoing[:sent]
                self.stuck_since = None
        except BlockingIOError:
            if self.stuck_since is None:
                self.stuck_since = now
        except OSError:
            self.outgoing.clear()
            _log.warning("worker does not listen any more", worker=self.number)

    def kill_if_stuck(self, now: float) -> None:
        """End a process that has taken nothing for long."""
        self.flush(now)
        is_stuck = self.stuck_since is not None and now - self.stuck_since >= _LONGEST_SILENCE_SECONDS
        if is_stuck and self.process is not None:
            _log.error("worker killed: it does not listen", worker=self.number)
            self.process.kill()

    def listen(self, now: float) -> None:
        """Count for how long the worker has said nothing."""
        waited, self.listened_at = now - self.listened_at, now
        if self.beats_heard != self.pulse.beats or self.is_ending:
            self.beats_heard, self.silent_seconds, self.cpu_at = self.pulse.beats, 0.0, (0.0, 0.0)
        else:
            self.silent_seconds += min(waited, _LONGEST_LOOK_SECONDS)

    def is_silent(self, limit_seconds: float) -> bool:
        """Whether it lives and has said nothing for half of what it may."""
        return self.process is not None and self.silent_seconds >= self._limit(limit_seconds) / 2

    def _limit(self, limit_seconds: float) -> float:
        return limit_seconds if self.data_plane else limit_seconds * _BUSY_PATIENCE

    def kill_if_silent(self, limit_seconds: float) -> None:
        """End a process that has said nothing for long, though it was listened to."""
        limit = self._limit(limit_seconds)
        if self.is_silenced or not self.is_silent(limit_seconds):
            return
        assert self.process is not None
        is_over = bool(self.data_plane) and self.silent_seconds >= limit * _BUSY_PATIENCE
        if is_over or (not self._is_busy(limit) and self.silent_seconds >= limit):
            _log.error("worker killed: it says nothing", worker=self.number, seconds=self.silent_seconds)
            self.is_silenced = True
            self.process.kill()

    def _is_busy(self, limit_seconds: float) -> bool:
        """Whether the process has computed in the last half of its limit."""
        assert self.process is not None
        cpu = cpu_seconds(self.process.pid)
        since, before = self.cpu_at
        if cpu is not None and (not since or cpu - before >= _BUSY_SHARE * limit_seconds / 2):
            self.cpu_at = self.silent_seconds, cpu
            return True
        return cpu is not None and self.silent_seconds - since < limit_seconds / 2

    def _put_off(self, now: float, failed: bool) -> float:
        """When the next process starts; the delay in seconds."""
        self.failures += failed
        doubled = self.restart_delay_seconds * 2.0 ** max(0, min(self.failures, 30) - 1)
        delay = min(doubled, _LONGEST_RESTART_DELAY_SECONDS) if failed else 0.0
        self.restart_at = now + delay
        return delay


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
