"""Whether the process has stood still, so that another monitor may judge by now. For any thread.

A thread looks at the clock twice a second. Where much more time has passed between two looks, nothing of the
process ran: its machine was frozen, or it was stopped. The session of a leader with ZooKeeper may have ended
meanwhile, and the next leader may have told the end of what fires here. So nothing is told until the lease
was renewed afterwards; where the service does not answer, for as long as a lease lasts.
"""

from __future__ import annotations

import threading
from typing import Final

from mirror.coordination.acting.state import LEASE_SECONDS
from mirror.ports import Clock

_LOOK_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 2.0
"""Between two looks; a session of ZooKeeper lasts for four seconds at least, and is renewed at each third."""


class Standstill:
    """`start` and `stop` its thread; who asks looks, too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_at = clock.monotonic()
        self._count = self._settled = 0
        self._ended_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="standstill", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        with self._lock:
            self._looked_at = self._clock.monotonic()
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def count(self) -> int:
        """How often the process has stood still so far."""
        with self._lock:
            self._look()
            return self._count

    def settle(self, count: int) -> None:
        """This monitor still judges, as was asked when it had stood still so often."""
        with self._lock:
            self._settled = count

    @property
    def is_settled(self) -> bool:
        """Whether what was known before may be told."""
        with self._lock:
            self._look()
            lasted = self._clock.monotonic() - self._ended_at
            return self._count == self._settled or lasted >= LEASE_SECONDS

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now - self._looked_at > LONGEST_SECONDS:
            self._count += 1
            self._ended_at = now
        self._looked_at = now

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.count()
