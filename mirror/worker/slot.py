"""What is decided about one worker process, over all its restarts: when it is killed, and when the next one
starts. Pure: moments are passed in, in monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST_RESTART_DELAY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""A worker that runs for this time once it was ready did not die of its start: its failures are forgotten."""
_LONGEST_DEAF_SECONDS: Final = 30.0
"""A worker that takes nothing for this time hangs. Reading checkpoints may take it half of that."""
_STARVED_TWICE: Final = 2
_LAST_WORDS_SECONDS: Final = 2.0
"""What a worker has said before it ended is read within this time."""
_LONGEST_LOOK_SECONDS: Final = 2.0
"""Silence counts only while somebody listens. After a longer time between two looks (this process was frozen
too, or had no CPU) what the worker has said meanwhile may still be unread."""
_BUSY_SHARE: Final = 0.05
"""A silent worker that uses this share of a core computes; one that is frozen or hangs uses none."""
_BUSY_PATIENCE: Final = 3.0
"""How many times longer one may be silent that computes, or that starts up: the watchdog in the worker ends
an endless loop before that, and writes where it was."""


@dataclass(eq=False)
class WorkerSlot:
    """`generation`: of the process, counted from 1. `data_plane`: what it runs; empty until it is ready.
    `failures`: processes that died in a row; `deaths`: since the instance began. `end_by`: when a process
    that was told to end is killed. `deaf_seconds`: for how long it has taken nothing
    of what it is sent. `cpu_at`: seconds
    of silence and of CPU when it was last seen to compute. `is_silenced`: it was killed because it said
    nothing. `over_since`: when its process was first seen to be over. `starved`: processes in a row that
    ended because their lease was over, though the control process had one. `has_started`: one of its
    processes was ready once; `is_unborn`: the system could not start the latest.
    """

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
    beats_heard: int = 0
    listened_at: float = 0.0
    silent_seconds: float = 0.0
    cpu_at: tuple[float, float] = (0.0, 0.0)
    is_silenced: bool = False
    over_since: float | None = None
    starved: int = 0
    has_started: bool = False
    is_unborn: bool = False

    def launch(self, now: float) -> None:
        """A process starts."""
        self.generation += 1
        self.is_running = True
        self.data_plane = ""
        self.started_at = self.listened_at = now
        self.restart_at = self.end_by = self.taken = self.over_since = None
        self.deaf_seconds = 0.0
        self.beats_heard, self.silent_seconds, self.cpu_at = 0, 0.0, (0.0, 0.0)
        self.is_silenced = False

    def end(self, now: float, *, failed: bool) -> float:
        """The process is over; returns the delay of the next one in seconds. A failed one is replaced after a
        delay that doubles."""
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
        """Note that a process has ended because its lease was over, though the control process had one."""
        self.starved += 1

    def is_starving(self, now: float) -> bool:
        """Whether that has happened again, and its process has not run for long since."""
        return self.starved >= _STARVED_TWICE and not self._is_steady(now)

    @property
    def is_ending(self) -> bool:
        """Whether it was told to end."""
        return self.end_by is not None

    def is_due(self, now: float) -> bool:
        """Whether its next process is to start."""
        return not self.is_running and self.restart_at is not None and now >= self.restart_at

    def is_overdue(self, now: float) -> bool:
        """Whether it was told to end and has not, in its time."""
        return self.end_by is not None and now >= self.end_by

    @property
    def is_deaf(self) -> bool:
        """Whether it has taken nothing for long."""
        return self.deaf_seconds >= _LONGEST_DEAF_SECONDS

    def is_over(self, now: float) -> bool:
        """Whether its process, which has ended, is to be given up though its channel has no end: a process
        that it has started holds the other side."""
        if self.over_since is None:
            self.over_since = now
        return now - self.over_since >= _LAST_WORDS_SECONDS

    def listen(self, now: float, beats: int, taken: int | None = None) -> None:
        """Count for how long the worker has said nothing, and taken nothing. `beats`: how often something of
        it was read; `taken`: how many pieces it has taken, None where it is sent nothing."""
        waited, self.listened_at = now - self.listened_at, now
        if self.beats_heard != beats or self.is_ending:
            self.beats_heard, self.silent_seconds, self.cpu_at = beats, 0.0, (0.0, 0.0)
        else:
            self.silent_seconds += min(waited, _LONGEST_LOOK_SECONDS)
        is_stuck = taken is not None and taken == self.taken
        self.deaf_seconds = self.deaf_seconds + min(waited, _LONGEST_LOOK_SECONDS) if is_stuck else 0.0
        self.taken = taken

    @property
    def is_silent(self) -> bool:
        """Whether it lives and has said nothing for half of what it may."""
        return self.is_running and self.silent_seconds >= self._limit / 2

    @property
    def _limit(self) -> float:
        return self.silence_limit_seconds * (1 if self.data_plane else _BUSY_PATIENCE)

    def has_hung(self, cpu_seconds: Callable[[], float | None]) -> bool:
        """Whether it has said nothing for long, though it was listened to, and does not compute either; one
        that computes may do so longer. `cpu_seconds`: what it has used; None where that is not known."""
        if self.is_silenced or not self.is_silent:
            return False
        limit = self._limit
        is_over = bool(self.data_plane) and self.silent_seconds >= limit * _BUSY_PATIENCE
        self.is_silenced = is_over or (not self._is_busy(cpu_seconds()) and self.silent_seconds >= limit)
        return self.is_silenced

    def _is_busy(self, cpu: float | None) -> bool:
        """Whether the process has computed in the last half of its limit."""
        limit = self._limit
        since, before = self.cpu_at
        if cpu is not None and (not since or cpu - before >= _BUSY_SHARE * limit / 2):
            self.cpu_at = self.silent_seconds, cpu
            return True
        return cpu is not None and self.silent_seconds - since < limit / 2
