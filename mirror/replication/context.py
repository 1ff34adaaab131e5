"""Resources that all parts of a worker share: event loop, memory, clusters and settings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from math import inf
from selectors import BaseSelector
from typing import Any, Final, TypeVar
from uuid import uuid4

from mirror.client.access import ClusterAccess
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.handshake import ConnectionConfig, ConnectionConfigs
from mirror.errors import TimedOut, UnsafeProgressTopic
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.flow import QuotaBuckets, TokenBucket
from mirror.lane.memory import BufferPool, BufferStock
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef
from mirror.model.movement.clock_skew import ClockSkew
from mirror.ports import Clock
from mirror.replication.options import CopyingOptions
from mirror.replication.progress_log import ProgressLog

T = TypeVar("T")

_ROUND_SECONDS: Final = 0.5
"""Maximum seconds that a command waits for events in one iteration of the loop."""
_ASIDE_BYTES: Final = 2 * 1024 * 1024
"""Memory in bytes for responses outside the lanes, separate for each cluster."""
_FRAME_MARGIN: Final = 64 * 1024
"""Bytes that a response may have in addition to the requested records."""


@dataclass(frozen=True)
class EngineIdentity:
    """Identity and fixed options of a copy engine.

    `client_id`: client id that is sent to brokers. `progress_topic`: topic that stores progress.
    `replication_factor`: its replication factor if Headrace creates it. `task_bytes_per_second`: quota of a
    task, 0 for none. `keeps_reports`: keep a report of every stopped lane.
    """

    instance: str
    client_id: str = "headrace"
    progress_topic: str = "headrace-progress"
    replication_factor: int = -1
    task_bytes_per_second: int = 0
    checkpoint_interval_seconds: float = 2.0
    keeps_reports: bool = False


class EngineContext:
    """Resources of one copy engine. A cluster is opened when a lane first uses it."""

    def __init__(
        self,
        access: Callable[[ClusterRef], ClusterAccess],
        settings: CopyingOptions,
        identity: EngineIdentity,
        clock: Clock,
        selector: BaseSelector | None = None,
    ) -> None:
        self.settings = settings
        self.identity = identity
        self.clock = clock
        self.token = uuid4().hex[:12]
        """Name of this engine in the progress that it stores."""
        self.loop = Loop(clock, selector)
        self.budget = ByteBudget(settings.buffer_bytes)
        self.live_budget = ByteBudget(settings.live_buffer_bytes)
        self._stock = BufferStock(settings.fetch_bytes + _FRAME_MARGIN, settings.buffer_bytes)
        self._live_stock = BufferStock(settings.live_fetch_bytes + _FRAME_MARGIN, settings.live_buffer_bytes)
        self.write_budget = ByteBudget(settings.read_ahead_bytes)
        self._ahead_budget = ByteBudget(settings.read_ahead_bytes)
        self._ahead_stock = BufferStock(settings.ahead_bytes + _FRAME_MARGIN, settings.read_ahead_bytes)
        self._parts: dict[tuple[ClusterRef, bool], ByteBudget] = {}
        self._access = access
        self._clusters: dict[ClusterRef, Cluster] = {}
        self._progress: dict[ClusterRef, ProgressLog] = {}
        self.quotas = QuotaBuckets(self.loop.now, identity.task_bytes_per_second)

    def cluster(self, reference: ClusterRef) -> Cluster:
        """Return the cluster of that name. Raises ConfigError for an unknown name."""
        known = self._clusters.get(reference)
        if known is None:
            known = self._clusters[reference] = Cluster(self._configs(reference), str(reference))
        return known

    def _configs(self, reference: ClusterRef) -> ConnectionConfigs:
        live = BufferPool(self._live_stock.size, self.budget_of(reference, live=True), self._live_stock)
        bulk = BufferPool(self._stock.size, self.budget_of(reference, live=False), self._stock)
        ahead = BufferPool(self._ahead_stock.size, self._ahead_budget.part(), self._ahead_stock)
        aside = BufferPool(0, ByteBudget(_ASIDE_BYTES))  # a pool without spare buffers
        config = ConnectionConfig(
            self.loop,
            bulk,
            self._access(reference),
            self.identity.client_id,
            self.settings.request_timeout_seconds,
            largest_batch_bytes=self.settings.largest_batch_bytes,
        )
        return ConnectionConfigs(
            replace(config, pool=live), config, replace(config, pool=ahead), replace(config, pool=aside)
        )

    def progress(self, reference: ClusterRef) -> ProgressLog:
        """Return the progress topic of a destination cluster."""
        known = self._progress.get(reference)
        if known is None:
            known = ProgressLog(
                self.cluster(reference), self.identity.progress_topic, self.identity.replication_factor
            )
            self._progress[reference] = known
        return known

    def progress_problem(self, reference: ClusterRef) -> UnsafeProgressTopic | None:
        """Return the reason why the cluster may delete stored progress, or None if it may not."""
        known = self._progress.get(reference)
        return known.problem if known is not None else None

    def release_progress(self, reference: ClusterRef, key: LaneKey) -> None:
        """Drop the stored progress of the lane from memory."""
        known = self._progress.get(reference)
        if known is not None:
            known.release(key)

    def silent_clusters(self, before: float) -> dict[ClusterRef, float]:
        """Return when the oldest overdue response of each cluster was due. Omits clusters without one before
        `before`."""
        found = {name: cluster.watch.silent_since for name, cluster in self._clusters.items()}
        return {name: since for name, since in found.items() if since < before}

    def take_returned(self) -> dict[ClusterRef, float]:
        """Return when each outage that ended since the previous call began (monotonic seconds)."""
        found = {
            name: cluster.connections.reachability.take_returned() for name, cluster in self._clusters.items()
        }
        return {name: since for name, since in found.items() if since is not None}

    def take_throttled(self) -> dict[ClusterRef, float]:
        """Map each cluster to the seconds for which its brokers throttled since the previous call."""
        found = {name: cluster.connections.take_throttled() for name, cluster in self._clusters.items()}
        return {name: seconds for name, seconds in found.items() if seconds}

    def clock_skews(self) -> dict[ClusterRef, ClockSkew]:
        """Return the largest clock skew among the brokers of each cluster. Unknown skews are omitted."""
        now_ms = self.clock.now_ms()
        found = {name: cluster.clocks.worst(now_ms) for name, cluster in self._clusters.items()}
        return {name: skew for name, skew in found.items() if skew is not None}

    def silence(self, reference: ClusterRef) -> str:
        """Return the unresponsive address of a cluster, with a description of the problem."""
        return self._clusters[reference].watch.silence

    def rack(self, reference: ClusterRef) -> str:
        """Return the rack of this client in the cluster."""
        return self._access(reference).rack

    def fetch_bytes(self, buckets: Iterable[TokenBucket]) -> int:
        """Return how many bytes one Fetch request reads for a lane. Fewer if lanes share a quota."""
        return min([self.settings.partition_fetch_bytes, *(bucket.share_bytes for bucket in buckets)])

    def budget_of(self, source: ClusterRef, *, live: bool) -> ByteBudget:
        """Return the memory budget for a cluster's responses to live lanes, or to lanes with a backlog."""
        part = self._parts.get((source, live))
        if part is None:
            part = self._parts[source, live] = (self.live_budget if live else self.budget).part()
        return part

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = inf) -> T:
        """Run one coroutine to completion, for commands that run no lanes. Raises TimedOut after `seconds`;
        the context is unusable afterwards."""
        promise, until = self.loop.spawn(coroutine), self.loop.now() + seconds
        while not promise.is_done:
            left = until - self.loop.now()
            if left <= 0:
                raise TimedOut(f"{', '.join(self._clusters)} did not respond within {seconds:g} s")
            self.loop.run_once(min(_ROUND_SECONDS, left))
        return promise.result()

    def close(self) -> None:
        """Close all connections to all clusters. Idempotent."""
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()
        self.loop.close()
