"""Detects pauses of the whole process, during which another monitor may have become active. Thread-safe.

A thread checks the clock twice a second. If much more time has passed between two checks, the process was
stopped or its machine was frozen. Meanwhile, the session of the leader may have expired, and the next
leader may have resolved the alerts. Therefore alerts are sent again only after the monitor has renewed its
lease or, if the service does not respond, after the duration of a lease.
"""

from __future__ import annotations

import threading
from typing import Final

from mirror.background_thread import BackgroundThread
from mirror.coordination.monitors.state import LEASE_SECONDS
from mirror.ports import Clock

_LOOK_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 2.0
"""Longest normal gap between two checks. A ZooKeeper session lasts at least four seconds, and is renewed at
every third of its duration."""


class PauseDetector(BackgroundThread):
    """Detects pauses of the process with a background thread. Every query also checks the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__("standstill")
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock.monotonic()
        self._count = self._settled = 0
        self._ended_at = 0.0

    def start(self) -> None:
        """Start the thread that checks the clock."""
        with self._lock:
            self._looked_at = self._clock.monotonic()
        super().start()

    def count(self) -> int:
        """Return the number of pauses of the process so far."""
        with self._lock:
            self._note_pause()
            return self._count

    def settle(self, count: int) -> None:
        """Record that the service has confirmed this monitor as active after `count` pauses."""
        with self._lock:
            self._settled = count

    @property
    def is_settled(self) -> bool:
        """True if the monitor may send alerts that it evaluated before the last pause."""
        with self._lock:
            self._note_pause()
            lasted = self._clock.monotonic() - self._ended_at
            return self._count == self._settled or lasted >= LEASE_SECONDS

    def _note_pause(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at > LONGEST_SECONDS:
            self._count += 1
            self._ended_at = now
        self._looked_at = now

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.count()
