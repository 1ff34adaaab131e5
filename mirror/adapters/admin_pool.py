"""One admin client for each cluster that is asked about; those that nobody asks about any more are closed:
each has threads and connections of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock

_IDLE_SECONDS: Final = 60.0


class AdminPool:
    """Thread-safe."""

    def __init__(self, make: Callable[[ClusterRef], KafkaAdmin], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[ClusterRef, tuple[KafkaAdmin, float]] = {}
        self._is_looking = False

    def __call__(self, cluster: ClusterRef) -> KafkaAdmin:
        """The client of a cluster. One that is dropped here and still used elsewhere lives until then."""
        now = self._clock.monotonic()
        with self._lock:
            admin = self._known[cluster][0] if cluster in self._known else self._make(cluster)
            self._known[cluster] = admin, now
            is_first, self._is_looking = not self._is_looking, True
        if is_first:
            self._look_later()
        return admin

    def close_idle(self) -> bool:
        """Close the clients that nobody has asked for in a while. Whether others are left."""
        now = self._clock.monotonic()
        with self._lock:
            idle = [one for one, (_, used_at) in self._known.items() if now - used_at > _IDLE_SECONDS]
            dropped = [self._known.pop(one) for one in idle]
            self._is_looking = is_looking = bool(self._known)
        del dropped  # closing takes a moment, in which nobody else waits
        return is_looking

    def _look_later(self) -> None:
        timer = threading.Timer(_IDLE_SECONDS / 2, self._look)
        timer.daemon = True
        timer.start()

    def _look(self) -> None:
        if self.close_idle():
            self._look_later()
