"""Finds the compacted topics of clusters. The log size of a compacted topic does not show how much is written
to it."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock
from mirror.settings import KafkaCluster

_log = get_logger(__name__)
_REFRESH_SECONDS: Final = 3600.0
_RETRY_SECONDS: Final = 60.0


class CompactedTopics:
    """Finds the compacted topics of clusters, for `ProviderInputs.compacted`. Used by one thread.

    Queries a cluster once an hour, or once a minute after a failure, and otherwise returns the last result. A
    topic whose settings cannot be read remains what it was.
    `resolve` returns the address of a cluster, None if the settings do not contain the cluster.
    """

    def __init__(self, resolve: Callable[[ClusterRef], KafkaCluster | None], clock: Clock) -> None:
        self._resolve = resolve
        self._clock = clock
        self._known: dict[ClusterRef, frozenset[str]] = {}
        self._next: dict[ClusterRef, float] = {}

    def __call__(self, cluster: ClusterRef) -> Set[str]:
        """Return the names of those topics of a cluster whose `cleanup.policy` contains compact."""
        now = self._clock.monotonic()
        address = self._resolve(cluster)
        if address is not None and now >= self._next.get(cluster, now):
            problem = self._read(cluster, address)
            self._next[cluster] = now + (_REFRESH_SECONDS if problem is None else _RETRY_SECONDS)
            if problem is not None:
                _log.warning("cannot list compacted topics", cluster=cluster, problem=str(problem))
        return self._known.get(cluster, frozenset())

    def _read(self, cluster: ClusterRef, address: KafkaCluster) -> HeadraceError | None:
        """Read which topics of a cluster are compacted. Return the error if this fails, also for a single
        topic."""
        admin = KafkaAdmin(address)
        try:
            described = admin.describe([name for name in admin.list_topics() if not name.startswith("__")])
        except HeadraceError as error:
            return error
        errors = {name: topic.settings_error for name, topic in described.items() if topic.settings_error}
        self._known[cluster] = (self._known.get(cluster, frozenset()) & errors.keys()) | {
            name for name, topic in described.items() if "compact" in topic.settings.get("cleanup.policy", "")
        }
        return next(iter(errors.values()), None)
