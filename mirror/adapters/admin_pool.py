"""One administrator for each cluster that is asked about, forgotten when nobody asks about it any more; its
connections close by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock

_IDLE_SECONDS: Final = 60.0
_MOST: Final = 500
"""Callers may choose addresses of clusters. Beyond it the one that has not been asked for longest goes."""


class AdminPool:
    """Thread-safe."""

    def __init__(self, make: Callable[[ClusterRef], KafkaAdmin], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[ClusterRef, tuple[KafkaAdmin, float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, cluster: ClusterRef) -> KafkaAdmin:
        """The administrator of a cluster. One that is forgotten here may still be used elsewhere."""
        now = self._clock.monotonic()
        with self._lock:
            idle = [one for one, (_, used_at) in self._known.items() if now - used_at > _IDLE_SECONDS]
            for one in idle:
                del self._known[one]
            known = self._known.pop(cluster, None)
            admin = known[0] if known is not None else self._make(cluster)
            self._known[cluster] = admin, now
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        return admin
