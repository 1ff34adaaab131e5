"""Pool of admin clients, one per cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock

_IDLE_SECONDS: Final = 60.0
_MOST: Final = 500
"""Maximum number of admin clients in the pool, because callers may choose any cluster address.

The least recently used admin client is dropped.
"""


class AdminPool:
    """Thread-safe pool of admin clients by cluster. Idle clients are dropped, and their connections close."""

    def __init__(self, make: Callable[[ClusterRef], KafkaAdmin], clock: Clock) -> None:
        self._make = make
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[ClusterRef, tuple[KafkaAdmin, float]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, cluster: ClusterRef) -> KafkaAdmin:
        """Return the admin client of a cluster.

        A client that was dropped from the pool may still be in use by other callers.
        """
        now = self._clock.monotonic()
        with self._lock:
            idle = [unused for unused, (_, used_at) in self._known.items() if now - used_at > _IDLE_SECONDS]
            for unused in idle:
                del self._known[unused]
            known = self._known.pop(cluster, None)
            admin = known[0] if known is not None else self._make(cluster)
            self._known[cluster] = admin, now
            if len(self._known) > _MOST:
                del self._known[next(iter(self._known))]
        return admin
