"""Ids of the clusters, as the leader last read them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import structlog

from mirror.bulkheads import Bulkhead
from mirror.coordination.stores.problems import reason_of
from mirror.instance.background_calls import BackgroundCalls, CallPending
from mirror.instance.discovery.preparation import LOOK_AGAIN_SECONDS
from mirror.model.identifiers import ClusterRef
from mirror.ports import Clock, TopicAdmin

_log = structlog.get_logger(__name__)


class ClusterIdentities:
    """Reads the id of each cluster once per interval until it is known, and then every ten minutes."""

    def __init__(
        self,
        admin_of: Callable[[ClusterRef], TopicAdmin],
        clock: Clock,
        interval_seconds: float,
        background_calls: BackgroundCalls,
    ) -> None:
        self._admin_of = admin_of
        self._clock = clock
        self._interval = interval_seconds
        self._background_calls = background_calls
        self._known: dict[ClusterRef, str] = {}
        self._requested_at: dict[ClusterRef, float] = {}
        self._failures: dict[ClusterRef, str] = {}

    def of(self, clusters: Collection[ClusterRef]) -> Mapping[ClusterRef, str]:
        """Return the last known ids of the given clusters; clusters that never responded are missing."""
        now = self._clock.monotonic()
        for cluster in clusters:
            limit = self._interval if cluster not in self._known else LOOK_AGAIN_SECONDS
            if now - self._requested_at.get(cluster, -limit) >= limit:
                self._ask(cluster, now)
        return {cluster: self._known[cluster] for cluster in clusters if cluster in self._known}

    def _ask(self, cluster: ClusterRef, now: float) -> None:
        self._requested_at[cluster] = now
        key = f"identity of {cluster}"
        try:
            with Bulkhead(partial(self._note_failure, cluster), through=(CallPending,)):
                self._known[cluster] = self._background_calls.ask(
                    f"discovery at {cluster}", key, self._admin_of(cluster).cluster_id
                )
                self._failures.pop(cluster, None)
        except CallPending:
            del self._requested_at[cluster]

    def _note_failure(self, cluster: ClusterRef, error: Exception) -> None:
        reason = reason_of(error)
        if self._failures.get(cluster) != reason:
            _log.info("cannot read cluster id", cluster=cluster, reason=reason)
        self._failures[cluster] = reason
