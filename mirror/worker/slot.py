"""Decides when to kill a worker process, and when to start the next one. Pure.

Times are in monotonic seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_LONGEST_RESTART_DELAY_SECONDS: Final = 30.0
_STEADY_SECONDS: Final = 60.0
"""Run time after which the count of failures is reset, because a later crash is not related to the start."""
_LONGEST_DEAF_SECONDS: Final = 30.0
"""Seconds after which a worker that reads no messages counts as hung.

Reading checkpoints may take half of this time.
"""
_STARVED_TWICE: Final = 2
_LAST_WORDS_SECONDS: Final = 2.0
"""Maximum seconds to read the last messages of a worker after its exit."""
_LONGEST_LOOK_SECONDS: Final = 2.0
"""Maximum silence in seconds that is counted between two checks.

During a longer gap, this process was frozen or had no CPU, and messages of the worker may still be unread.
"""
_BUSY_SHARE: Final = 0.05
"""Share of a core above which a silent worker counts as busy. A frozen or hung worker uses no CPU."""
_BUSY_PATIENCE: Final = 3.0
"""Factor for the silence limit of workers that are busy or starting.

Within this time, the watchdog of the worker ends an endless loop and logs its stack.
"""


@dataclass(eq=False)
class WorkerSilence:
    """Detects a worker process that no longer sends or reads.

    `limit_seconds`: silence after which a process that is ready and computes nothing is killed. `heartbeats`:
    number of reads from the process. `taken`: number of chunks that it has read; None if no message is
    pending. `cpu_at`: length of the silence and CPU time when the process last computed, in seconds.
    `is_fatal`: whether it was killed because of silence.
    """

    limit_seconds: float
    heartbeats: int = 0
    taken: int | None = None
    listened_at: float = 0.0
    seconds: float = 0.0
    deaf_seconds: float = 0.0
    cpu_at: tuple[float, float] = (0.0, 0.0)
    is_fatal: bool = False

    def restart(self, now: float) -> None:
        """Reset the times for a new process."""
        self.listened_at, self.taken, self.deaf_seconds = now, None, 0.0
        self.heartbeats, self.seconds, self.cpu_at = 0, 0.0, (0.0, 0.0)
        self.is_fatal = False

    def listen(self, now: float, beats: int, taken: int | None, *, is_ending: bool) -> None:
        """Update how long the process has been silent. A process that is ending need not send anything."""
        waited, self.listened_at = now - self.listened_at, now
        if self.heartbeats != beats or is_ending:
            self.heartbeats, self.seconds, self.cpu_at = beats, 0.0, (0.0, 0.0)
        else:
            self.seconds += min(waited, _LONGEST_LOOK_SECONDS)
        is_stuck = taken is not None and taken == self.taken
        self.deaf_seconds = self.deaf_seconds + min(waited, _LONGEST_LOOK_SECONDS) if is_stuck else 0.0
        self.taken = taken

    @property
    def is_deaf(self) -> bool:
        """True if the process has not read any message for a long time."""
        return self.deaf_seconds >= _LONGEST_DEAF_SECONDS

    def is_long(self, *, is_ready: bool) -> bool:
        """Return whether the process has been silent for half of its limit."""
        return self.seconds >= self._limit(is_ready=is_ready) / 2

    def _limit(self, *, is_ready: bool) -> float:
        return self.limit_seconds * (1 if is_ready else _BUSY_PATIENCE)

    def is_over(self, cpu_seconds: Callable[[], float | None], *, is_ready: bool) -> bool:
        """Return whether the process has sent nothing for longer than its limit, which is longer while it
        computes. `cpu_seconds`: see `WorkerSlot.has_hung`."""
        limit = self._limit(is_ready=is_ready)
        is_over = is_ready and self.seconds >= limit * _BUSY_PATIENCE
        self.is_fatal = is_over or (not self._is_busy(cpu_seconds(), limit) and self.seconds >= limit)
        return self.is_fatal

    def _is_busy(self, cpu: float | None, limit: float) -> bool:
        """Return whether the process has computed in the last half of its silence limit."""
        since, before = self.cpu_at
        if cpu is not None and (not since or cpu - before >= _BUSY_SHARE * limit / 2):
            self.cpu_at = self.seconds, cpu
            return True
        return cpu is not None and self.seconds - since < limit / 2


@dataclass(eq=False)
class WorkerSlot:
    """State of a worker across restarts of its process.

    `generation`: number of the current process, starting at 1. `data_plane`: data plane that the process
    reported; empty until the process is ready. `failures`: consecutive crashes; `deaths`: crashes since the
    instance started. `end_by`: time at which a process that was requested to exit is killed. `over_since`:
    time at which the exit of the process was first observed. `starved`: number of consecutive processes that
    exited because of an expired lease although the control process had a lease. `has_started`: whether any
    process of the worker has been ready. `is_unborn`: whether the system could not start the latest process.
    """

    number: int
    restart_delay_seconds: float
    silence: WorkerSilence
    generation: int = 0
    is_running: bool = False
    data_plane: str = ""
    failures: int = 0
    deaths: int = 0
    started_at: float = 0.0
    restart_at: float | None = None
    end_by: float | None = None
    over_since: float | None = None
    starved: int = 0
    has_started: bool = False
    is_unborn: bool = False

    def launch(self, now: float) -> None:
        """Note that a new process of the worker was started."""
        self.generation += 1
        self.is_running = True
        self.data_plane = ""
        self.started_at = now
        self.restart_at = self.end_by = self.over_since = None
        self.silence.restart(now)

    def end(self, now: float, *, failed: bool) -> float:
        """Handle the exit of the process. Return the seconds until the next start.

        The delay doubles with each failure.
        """
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
        """Note that the worker exited because its lease expired, although the instance had a lease."""
        self.starved += 1

    def is_starving(self, now: float) -> bool:
        """Return whether leases have expired repeatedly, and no later process has run for long."""
        return self.starved >= _STARVED_TWICE and not self._is_steady(now)

    @property
    def is_ending(self) -> bool:
        """True if the worker process was requested to exit."""
        return self.end_by is not None

    def is_due(self, now: float) -> bool:
        """Return whether it is time to start the worker's next process."""
        return not self.is_running and self.restart_at is not None and now >= self.restart_at

    def is_overdue(self, now: float) -> bool:
        """Return whether the process was requested to exit and has missed its deadline."""
        return self.end_by is not None and now >= self.end_by

    def is_over(self, now: float) -> bool:
        """Return whether the process has exited, and its channel must no longer be waited for.

        A child of the process may keep the channel open.
        """
        if self.over_since is None:
            self.over_since = now
        return now - self.over_since >= _LAST_WORDS_SECONDS

    def listen(self, now: float, beats: int, taken: int | None = None) -> None:
        """Update how long the worker has neither sent nor read. `beats`: number of reads from the worker.
        `taken`: number of chunks that the worker has read; None if no message is pending."""
        self.silence.listen(now, beats, taken, is_ending=self.is_ending)

    @property
    def is_silent(self) -> bool:
        """True if the process is running and has sent nothing for half of its silence limit."""
        return self.is_running and self.silence.is_long(is_ready=bool(self.data_plane))

    def has_hung(self, cpu_seconds: Callable[[], float | None]) -> bool:
        """Return whether the process counts as hung: it has sent nothing for too long, although the control
        process was reading, and the process is not computing. A process that is computing gets more time.
        `cpu_seconds`: function that returns the CPU time of the process; None if unknown."""
        if self.silence.is_fatal or not self.is_silent:
            return False
        return self.silence.is_over(cpu_seconds, is_ready=bool(self.data_plane))
