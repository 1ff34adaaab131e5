"""What everything in a worker shares: the loop, memory, clusters, and the settings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
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
from mirror.lane.flow import TokenBucket
from mirror.lane.memory import BufferStock, ByteBudget, SlabPool
from mirror.model.datastreams.lanes import LaneKey, LaneSpec
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.movement.clock_skew import ClockSkew
from mirror.ports import Clock
from mirror.replication.options import CopyingOptions
from mirror.replication.progress_log import ProgressLog

T = TypeVar("T")

_ROUND_SECONDS: Final = 0.5
"""A round of the loop waits this long for something to happen while a command runs."""
_ASIDE_BYTES: Final = 2 * 1024 * 1024
"""For answers that nobody holds, of each cluster: none waits for what another cluster's broker holds."""
_FRAME_MARGIN: Final = 64 * 1024
"""A response is a little larger than the records that were asked for."""


@dataclass(frozen=True)
class EngineIdentity:
    """Who copies. `client_id` is what brokers show; `progress_topic` and `replication_factor` say where
    progress is kept; `task_bytes_per_second` is the quota of a task, 0 for none; `keeps_reports` keeps a
    report of every lane that stops."""

    instance: str
    client_id: str = "headrace"
    progress_topic: str = "headrace-progress"
    replication_factor: int = -1
    task_bytes_per_second: int = 0
    checkpoint_interval_seconds: float = 2.0
    keeps_reports: bool = False


class EngineContext:
    """Made once for an engine; clusters are opened when a lane first needs them."""

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
        """Names this engine in what it stores."""
        self.loop = Loop(clock, selector)
        self.budget = ByteBudget(settings.buffer_bytes)
        self.live_budget = ByteBudget(settings.live_buffer_bytes)
        self._stock = BufferStock(settings.fetch_bytes + _FRAME_MARGIN, settings.buffer_bytes)
        self._live_stock = BufferStock(settings.live_fetch_bytes + _FRAME_MARGIN, settings.live_buffer_bytes)
        self._parts: dict[tuple[ClusterRef, bool], ByteBudget] = {}
        self._access = access
        self._clusters: dict[ClusterRef, Cluster] = {}
        self._progress: dict[ClusterRef, ProgressLog] = {}
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._shares: Mapping[GroupName, float] = {}

    def cluster(self, reference: ClusterRef) -> Cluster:
        """The cluster of that name. Raises ConfigError for an unknown one."""
        known = self._clusters.get(reference)
        if known is None:
            known = self._clusters[reference] = Cluster(self._configs(reference), str(reference))
        return known

    def _configs(self, reference: ClusterRef) -> ConnectionConfigs:
        live = SlabPool(self._live_stock.size, self.budget_of(reference, live=True), self._live_stock)
        bulk = SlabPool(self._stock.size, self.budget_of(reference, live=False), self._stock)
        aside = SlabPool(0, ByteBudget(_ASIDE_BYTES))  # it keeps no buffers
        config = ConnectionConfig(
            self.loop,
            bulk,
            self._access(reference),
            self.identity.client_id,
            self.settings.request_timeout_seconds,
            largest_batch_bytes=self.settings.largest_batch_bytes,
        )
        return ConnectionConfigs(replace(config, pool=live), config, replace(config, pool=aside))

    def progress(self, reference: ClusterRef) -> ProgressLog:
        """The progress topic of a destination cluster."""
        known = self._progress.get(reference)
        if known is None:
            known = ProgressLog(
                self.cluster(reference), self.identity.progress_topic, self.identity.replication_factor
            )
            self._progress[reference] = known
        return known

    def progress_problem(self, reference: ClusterRef) -> UnsafeProgressTopic | None:
        """Return why progress stored there will expire; None where nothing was read or written yet."""
        known = self._progress.get(reference)
        return known.problem if known is not None else None

    def release_progress(self, reference: ClusterRef, key: LaneKey) -> None:
        """Keep nothing in memory of what is stored of the lane."""
        known = self._progress.get(reference)
        if known is not None:
            known.release(key)

    def silent_clusters(self, before: float) -> dict[ClusterRef, float]:
        """Clusters that have not answered something since a moment before that, with the moment."""
        return {name: one.silent_since for name, one in self._clusters.items() if one.silent_since < before}

    def take_returned(self) -> dict[ClusterRef, float]:
        """Clusters back from an outage since the last call, with its beginning in monotonic seconds."""
        found = {name: one.reachability.take_returned() for name, one in self._clusters.items()}
        return {name: since for name, since in found.items() if since is not None}

    def take_throttled(self) -> dict[ClusterRef, float]:
        """Clusters of which a broker has asked to be left alone since the last call, with the seconds in
        which one did."""
        found = {name: one.take_throttled() for name, one in self._clusters.items()}
        return {name: seconds for name, seconds in found.items() if seconds}

    def clock_skews(self) -> dict[ClusterRef, ClockSkew]:
        """By cluster, how far the clock of a broker is off; without those of which that is not known."""
        now_ms = self.clock.now_ms()
        found = {name: one.clocks.worst(now_ms) for name, one in self._clusters.items()}
        return {name: skew for name, skew in found.items() if skew is not None}

    def silence(self, reference: ClusterRef) -> str:
        """Which address of the cluster does not answer, and how."""
        return self._clusters[reference].silence

    def rack(self, reference: ClusterRef) -> str:
        """Our rack, as far as the cluster is concerned."""
        return self._access(reference).rack

    def buckets(self, spec: LaneSpec) -> tuple[TokenBucket, ...]:
        """The quotas that a lane shares with others when it begins: its task's, and its datastream's as that
        is shared here, or as its definition says until it is shared."""
        return self._buckets_of(spec, self._shares.get(spec.key.group, spec.policy.bytes_per_second))

    def shared_buckets(self, spec: LaneSpec) -> tuple[TokenBucket, ...]:
        """The same for a lane that runs: what is shared counts, whatever it began with."""
        return self._buckets_of(spec, self._shares.get(spec.key.group, 0.0))

    def _buckets_of(self, spec: LaneSpec, quota: float) -> tuple[TokenBucket, ...]:
        rates = (
            ("task", spec.task, self.identity.task_bytes_per_second),
            ("datastream", spec.key.group, quota),
        )
        found = []
        for kind, name, rate in rates:
            if rate:
                bucket = self._buckets.get((kind, name))
                if bucket is None:
                    bucket = self._buckets[kind, name] = TokenBucket(rate, self.loop.now(), kind)
                found.append(bucket)
        return tuple(found)

    def share_quotas(self, shares: Mapping[GroupName, float]) -> set[GroupName]:
        """What lanes of these groups may copy here in a second, as much as others copy elsewhere; groups that
        are not named have no quota. Returns those for which that is new."""
        changed = {
            group
            for group in shares.keys() | self._shares.keys()
            if shares.get(group) != self._shares.get(group)
        }
        self._shares = dict(shares)
        for group in changed:
            bucket = self._buckets.get(("datastream", group))
            if bucket is not None and group in shares:
                bucket.set_rate(shares[group], self.loop.now())
            elif bucket is not None:
                del self._buckets["datastream", group]
        return changed

    def fetch_bytes(self, buckets: Iterable[TokenBucket]) -> int:
        """How much a lane asks for at a time: a quota is shared by small takes."""
        return min([self.settings.partition_fetch_bytes, *(bucket.share_bytes for bucket in buckets)])

    def budget_of(self, source: ClusterRef, *, live: bool) -> ByteBudget:
        """The part of a tier's memory for responses of that cluster."""
        part = self._parts.get((source, live))
        if part is None:
            part = self._parts[source, live] = (self.live_budget if live else self.budget).part()
        return part

    def run(self, coroutine: Coroutine[Any, Any, T], seconds: float = inf) -> T:
        """Run one coroutine to its end; for commands, where nothing else happens. Raises TimedOut when it
        takes longer; then nothing else can be run here."""
        promise, until = self.loop.spawn(coroutine), self.loop.now() + seconds
        while not promise.is_done:
            left = until - self.loop.now()
            if left <= 0:
                raise TimedOut(f"{', '.join(self._clusters)} did not answer everything within {seconds:g} s")
            self.loop.run_once(min(_ROUND_SECONDS, left))
        return promise.result()

    def close(self) -> None:
        """Drop all connections. Idempotent."""
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()
        self.loop.close()
