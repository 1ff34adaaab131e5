"""Lifecycle decisions for one worker process across its restarts: when to kill it, and when to start the next
one. Pure: times are arguments, in monotonic seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST_RESTART_DELAY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""Run time after readiness from which on a crash is not attributed to the start; the count of failures is
reset."""
_LONGEST_DEAF_SECONDS: Final = 30.0
"""Time without reading any message after which a worker counts as hung. Reading checkpoints may take half of
it."""
_STARVED_TWICE: Final = 2
_LAST_WORDS_SECONDS: Final = 2.0
"""Time to read the last messages of a worker after its exit."""
_LONGEST_LOOK_SECONDS: Final = 2.0
"""Maximum silence counted between two checks. After a longer gap (this process was frozen too, or had no CPU)
the worker's messages may still be unread."""
_BUSY_SHARE: Final = 0.05
"""CPU share of a core above which a silent worker counts as computing; a frozen or hung one uses none."""
_BUSY_PATIENCE: Final = 3.0
"""Factor for the silence limit of workers that compute or start up: before it expires, the watchdog in the
worker ends an endless loop and logs its stack."""


@dataclass(eq=False)
class WorkerSlot:
    """`generation`: number of the process, starting at 1. `data_plane`: reported data plane; empty until
    ready. `failures`: consecutive crashes; `deaths`: crashes since the instance started. `end_by`: time at
    which a process that was asked to exit is killed. `deaf_seconds`: time for which it has not read any
    message. `cpu_at`: seconds of silence and of CPU when it was last seen computing. `is_silenced`: it was
    killed because of silence. `over_since`: time at which its exit was first observed. `starved`: consecutive
    processes that exited because of an expired lease although the control process had one. `has_started`: one
    of its processes has been ready; `is_unborn`: the system could not start the latest one."""

    number: int
    restart_delay_seconds: float
    silence_limit_seconds: float
    generation: int = 0
    is_running: bool = False
    data_plane: str = ""
    failures: int = 0
    deaths: int = 0
    started_at: float = 0.0
    restart_at: float | None = None
    end_by: float | None = None
    taken: int | None = None
    deaf_seconds: float = 0.0
    heartbeats: int = 0
    listened_at: float = 0.0
    silent_seconds: float = 0.0
    cpu_at: tuple[float, float] = (0.0, 0.0)
    is_silenced: bool = False
    over_since: float | None = None
    starved: int = 0
    has_started: bool = False
    is_unborn: bool = False

    def launch(self, now: float) -> None:
        """Record the start of a process."""
        self.generation += 1
        self.is_running = True
        self.data_plane = ""
        self.started_at = self.listened_at = now
        self.restart_at = self.end_by = self.taken = self.over_since = None
        self.deaf_seconds = 0.0
        self.heartbeats, self.silent_seconds, self.cpu_at = 0, 0.0, (0.0, 0.0)
        self.is_silenced = False

    def end(self, now: float, *, failed: bool) -> float:
        """Record the exit of the process; return the delay of the next one in seconds. The delay doubles with
        each failure."""
        is_steady = self._is_steady(now)
        self.starved = 0 if is_steady else self.starved
        self.failures = failed + (0 if is_steady else self.failures)
        self.deaths += failed
        self.is_running = False
        self.data_plane = ""
        doubled = self.restart_delay_seconds * 2.0 ** max(0, min(self.failures, 30) - 1)
        delay = min(doubled, _LONGEST_RESTART_DELAY_SECONDS) if failed else 0.0
        self.restart_at = now + delay
        return delay

    def _is_steady(self, now: float) -> bool:
        return bool(self.data_plane) and now - self.started_at > _STEADY_SECONDS

    def starve(self) -> None:
        """Record that a process has exited because its lease expired, although the control process had
        one."""
        self.starved += 1

    def is_starving(self, now: float) -> bool:
        """Return whether that has happened repeatedly, and the process has not run for long since."""
        return self.starved >= _STARVED_TWICE and not self._is_steady(now)

    @property
    def is_ending(self) -> bool:
        """True if it was asked to exit."""
        return self.end_by is not None

    def is_due(self, now: float) -> bool:
        """Return whether to start the next process."""
        return not self.is_running and self.restart_at is not None and now >= self.restart_at

    def is_overdue(self, now: float) -> bool:
        """Return whether it was asked to exit and has missed its deadline."""
        return self.end_by is not None and now >= self.end_by

    @property
    def is_deaf(self) -> bool:
        """True if it has not read any message for a long time."""
        return self.deaf_seconds >= _LONGEST_DEAF_SECONDS

    def is_over(self, now: float) -> bool:
        """Return whether to give up waiting for the end of the channel after the process has exited; a child
        of the process may still hold the other end."""
        if self.over_since is None:
            self.over_since = now
        return now - self.over_since >= _LAST_WORDS_SECONDS

    def listen(self, now: float, beats: int, taken: int | None = None) -> None:
        """Update how long the worker has sent nothing and read nothing. `beats`: number of reads from it;
        `taken`: number of chunks it has read, None if no message is pending."""
        waited, self.listened_at = now - self.listened_at, now
        if self.heartbeats != beats or self.is_ending:
            self.heartbeats, self.silent_seconds, self.cpu_at = beats, 0.0, (0.0, 0.0)
        else:
            self.silent_seconds += min(waited, _LONGEST_LOOK_SECONDS)
        is_stuck = taken is not None and taken == self.taken
        self.deaf_seconds = self.deaf_seconds + min(waited, _LONGEST_LOOK_SECONDS) if is_stuck else 0.0
        self.taken = taken

    @property
    def is_silent(self) -> bool:
        """True if it is running and has sent nothing for half of its limit."""
        return self.is_running and self.silent_seconds >= self._limit / 2

    @property
    def _limit(self) -> float:
        return self.silence_limit_seconds * (1 if self.data_plane else _BUSY_PATIENCE)

    def has_hung(self, cpu_seconds: Callable[[], float | None]) -> bool:
        """Return whether it has sent nothing for too long while its messages were being read, and is not
        computing; a computing worker gets more time. `cpu_seconds`: returns its CPU time; None if unknown."""
        if self.is_silenced or not self.is_silent:
            return False
        limit = self._limit
        is_over = bool(self.data_plane) and self.silent_seconds >= limit * _BUSY_PATIENCE
        self.is_silenced = is_over or (not self._is_busy(cpu_seconds()) and self.silent_seconds >= limit)
        return self.is_silenced

    def _is_busy(self, cpu: float | None) -> bool:
        """Return whether the process has computed in the last half of its limit."""
        limit = self._limit
        since, before = self.cpu_at
        if cpu is not None and (not since or cpu - before >= _BUSY_SHARE * limit / 2):
            self.cpu_at = self.silent_seconds, cpu
            return True
        return cpu is not None and self.silent_seconds - since < limit / 2
