"""Thread of the leader that records which topics are in use.

The thread reads the state of all topics regularly, so that their age and last use are known when an operator
lists unused topics.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import directory_of
from headrace.clusters.own_topics import own_topics
from mirror.adapters.system_clock import SystemClock
from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.coordination.stores.cluster_ids import KnownClusters
from mirror.coordination.topic_use import UnusedRules
from mirror.errors import ConfigError, InvalidRequest
from mirror.jobs.groups.record import GroupKeys, StoredGroups
from mirror.jobs.retirement.steps import TopicRetirements
from mirror.jobs.retirement.store import RetirementStore, TopicUseStore
from mirror.jobs.retirement.topic_watch import TopicWatch
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream, clusters_of
from mirror.model.identifiers import ClusterRef
from mirror.model.metrics import PlacementEvent
from mirror.model.reasons import reason_of

if TYPE_CHECKING:
    from api.services import Services
    from headrace.settings import HeadraceSettings
    from mirror.ports import NodeStore

_log = get_logger(__name__)
_T = TypeVar("_T")
_FIRST_SECONDS: Final = 60.0
_INTERVAL_SECONDS: Final = 3_600.0
_REQUEST_SECONDS: Final = 5.0
_CALL_SECONDS: Final = 30.0
"""Timeout of one query of a cluster in seconds."""


@dataclass(frozen=True)
class ClusterConnections:
    """Runs queries on clusters over new connections. Implements `ClusterCalls`."""

    settings: HeadraceSettings
    seconds: float = _CALL_SECONDS

    def __call__(self, cluster: ClusterRef, question: Callable[[Cluster], Coroutine[Any, Any, _T]], /) -> _T:
        """Query a cluster, and return the result. Raises Unreachable, NotAuthorized; InvalidRequest for an
        unknown cluster."""
        directory = directory_of(self.settings)
        try:
            directory.resolve(cluster)
        except ConfigError as error:
            raise InvalidRequest(error.message, advice=error.advice) from error
        with bench_of(self.settings, "headrace-topics", directory, _REQUEST_SECONDS) as bench:
            return bench.run(question(bench.cluster(cluster)), self.seconds)


class TopicWatchThread(BackgroundThread):
    """Reads the topics of all clusters once per hour while this instance is the leader."""

    def __init__(
        self,
        watch: TopicWatch,
        datastreams: Callable[[], Sequence[Datastream]],
        is_leading: Callable[[], bool],
    ) -> None:
        super().__init__("topic use")
        self._watch = watch
        self._datastreams = datastreams
        self._is_leading = is_leading
        self._failures: dict[ClusterRef, str] = {}

    def _run(self) -> None:
        wait = _FIRST_SECONDS
        while not self._stopping.wait(wait):
            with Bulkhead(
                lambda error: _log.warning("cannot record the use of topics", reason=reason_of(error))
            ):
                if self._is_leading():
                    self.run_once()
            wait = _INTERVAL_SECONDS if self._is_leading() else _FIRST_SECONDS

    def run_once(self) -> None:
        """Record which topics of all clusters are in use.

        A failure of one cluster is logged once, and does not affect the others.
        """
        datastreams = self._datastreams()
        for cluster in sorted(clusters_of(datastreams)):
            if self._stopping.is_set():
                return
            with Bulkhead(partial(self._failed, cluster)):
                self._watch.observe(cluster, datastreams)
                self._failures.pop(cluster, None)

    def _failed(self, cluster: ClusterRef, error: Exception) -> None:
        reason = reason_of(error)
        if self._failures.get(cluster) != reason:
            _log.warning("cannot read the topics of a cluster", cluster=cluster, reason=reason)
        self._failures[cluster] = reason


def build_retirements(
    settings: HeadraceSettings,
    nodes: NodeStore,
    topics: Callable[[ClusterRef], Mapping[str, int] | None],
    followed_groups: Callable[[ClusterRef, GroupKeys], StoredGroups],
    announce: Callable[[tuple[PlacementEvent, ...]], None],
) -> TopicRetirements:
    """Build the object that retires unused topics from the settings."""
    connections = ClusterConnections(settings)
    store, known = TopicUseStore(nodes), KnownClusters(nodes)
    watch = TopicWatch(store, known, connections, topics, followed_groups, SystemClock())
    rules = UnusedRules(keep=tuple(settings.mirror.kept_topics), own=own_topics(settings))
    return TopicRetirements(watch, RetirementStore(nodes), rules, announce)


def build_topic_watch(services: Services) -> TopicWatchThread:
    """Build the thread that records the use of topics from the settings."""
    return TopicWatchThread(
        services.retirements.watch,
        lambda: services.control.list().datastreams,
        lambda: services.status.is_leading,
    )
