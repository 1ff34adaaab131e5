"""Queries Kafka clusters for REST requests.

Queries take at most a few seconds. Each cluster gets one query at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from api.http.slow_calls import ANSWER_SECONDS, ClusterRequestLimiter
from headrace.clusters.adhoc import bench_of
from headrace.clusters.directory import directory_of
from headrace.settings import HeadraceSettings
from mirror.adapters.kafka_admin import AdminPool, KafkaAdmin
from mirror.adapters.system_clock import SystemClock
from mirror.jobs.dr.log import StateCopy
from mirror.jobs.dr.operation import PairState
from mirror.jobs.groups.follower import stored_groups
from mirror.jobs.groups.record import GroupKeys, StoredGroups
from mirror.jobs.groups.source import with_kind
from mirror.jobs.stored_lanes import StoredLanes, stored_and_current, stored_to_translate
from mirror.jobs.translate_job import GroupPositions, TranslateJob, committed_at
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.ports import TopicAdmin
from mirror.replication.context import EngineContext

_T = TypeVar("_T")
_ALL_SECONDS: Final = 2 * ANSWER_SECONDS
"""Time limit in seconds for all requests to a cluster in one REST call."""


class ClusterQuestions:
    """Queries Kafka clusters for REST requests. Thread-safe. All methods raise Unreachable, NotAuthorized and
    ClusterInUse."""

    def __init__(self, settings: HeadraceSettings, limiter: ClusterRequestLimiter) -> None:
        directory, factor = directory_of(settings), settings.mirror.leader.replication_factor
        self._settings, self._directory = settings, directory
        self._limiter = limiter
        self._admins = AdminPool(
            lambda cluster: KafkaAdmin(directory.resolve(cluster), factor, deadline_seconds=ANSWER_SECONDS),
            SystemClock(),
        )

    def admin(self, cluster: ClusterRef, question: Callable[[TopicAdmin], _T]) -> _T:
        """Call a function with the admin client of a cluster, and return its result."""
        return self._limiter.ask(cluster, lambda: question(self._admins(cluster)))

    def stored(self, destination: ClusterRef, group: GroupName) -> StoredLanes:
        """Return the progress that a datastream group has stored at a destination. Raises NothingStored."""
        return self._answer(destination, lambda bench: stored_and_current(bench, destination, group))

    def stored_to_translate(
        self, source: ClusterRef, destination: ClusterRef, group: GroupName
    ) -> StoredLanes:
        """Return the stored progress from which offsets are translated between two clusters. Raises
        NothingStored.

        If the source is unreachable, the start offsets of its logs are missing, and the source is not queried
        again for a while.
        """
        if self._limiter.failure(source) is not None:
            return self.stored(destination, group)
        found = self._answer(
            destination, lambda bench: stored_to_translate(bench, source, destination, group)
        )
        if found.source_error is not None:
            self._limiter.note_failure(source, found.source_error)
        return found

    def followed_groups(self, destination: ClusterRef, keys: GroupKeys) -> StoredGroups:
        """Return the stored state of a datastream's consumer groups at its destination. Raises
        NewerFormat."""
        return self._answer(destination, lambda bench: stored_groups(bench, destination, keys))

    def pair_copy(self, cluster: ClusterRef, name: str) -> PairState | None:
        """Return the copy of a cluster pair's state that is stored on a cluster, or None. Raises CorruptData,
        NewerFormat."""
        return self._answer(cluster, lambda bench: StateCopy(bench, cluster, name).read())

    def group_positions(self, job: TranslateJob) -> GroupPositions:
        """Return the committed positions of a consumer group on both clusters, or the start offsets of a
        share group."""
        here, there = job.sides
        kind = self._answer(here, lambda bench: with_kind(bench, job)).kind
        return GroupPositions(
            self._answer(here, lambda bench: committed_at(bench.cluster(here), job.group, kind)),
            self._answer(there, lambda bench: committed_at(bench.cluster(there), job.target_group, kind)),
        )

    def _answer(self, cluster: ClusterRef, ask: Callable[[EngineContext], Coroutine[Any, Any, _T]]) -> _T:
        """Run a query over new connections to a cluster, and return its result."""

        def question() -> _T:
            with bench_of(self._settings, "headrace-rest", self._directory, ANSWER_SECONDS) as bench:
                return bench.run(ask(bench), _ALL_SECONDS)

        return self._limiter.ask(cluster, question)
