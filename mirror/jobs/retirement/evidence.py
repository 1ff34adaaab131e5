"""Collects evidence that topics are in use, from the clusters, stored observations, and definitions of
datastreams."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from mirror.client.cluster import Cluster
from mirror.coordination.stores.cluster_ids import KnownClusters
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.topic_use import (
    ClusterLook,
    TopicEvidence,
    TopicSighting,
    UnusedRules,
    judged,
    selectors_of,
)
from mirror.errors import IllegalTransition
from mirror.jobs.groups.record import GroupKeys, StoredGroups
from mirror.jobs.retirement.look import OwnGroups, compacted, look_at
from mirror.jobs.retirement.store import TopicUseStore
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.ports import Clock

_T = TypeVar("_T")


class ClusterCalls(Protocol):
    """Runs calls on clusters."""

    def __call__(self, cluster: ClusterRef, question: Callable[[Cluster], Coroutine[Any, Any, _T]], /) -> _T:
        """Run a call and return its result. Raises Unreachable if the cluster does not respond in time."""
        ...


@dataclass(frozen=True)
class TopicWatch:
    """Reads the state of clusters, and stores each observation.

    `topics`: callback that returns the topics of a cluster, None if unknown. `followed_groups`: callback that
    returns the stored consumer groups of a datastream.
    """

    store: TopicUseStore
    known: KnownClusters
    ask: ClusterCalls
    topics: Callable[[ClusterRef], Collection[str] | None]
    followed_groups: Callable[[ClusterRef, GroupKeys], StoredGroups]
    clock: Clock

    def look(
        self, cluster: ClusterRef, datastreams: Sequence[Datastream]
    ) -> tuple[ClusterLook, Mapping[str, TopicSighting]]:
        """Read and store the current state of all topics of a cluster.

        Raises Unreachable, NotAuthorized, VersionConflict.
        """
        own = self._own_groups(cluster, datastreams)
        found = self.ask(cluster, partial(look_at, own=own))
        return found, self.store.note(cluster, found, self.clock.now_ms())

    def evidence(
        self, cluster: ClusterRef, definitions: Definitions, rules: UnusedRules, only: str = ""
    ) -> list[TopicEvidence]:
        """Return the evidence about the topics of a cluster.

        `only`: name of a single topic; empty for all topics. Raises the errors of `look`, and
        IllegalTransition if a definition is unreadable.
        """
        if not definitions.is_whole:
            raise IllegalTransition(
                "cannot determine which topics are in use: a damaged definition may select any topic",
                advice="find it with headrace datastream list; repair or delete it",
            )
        datastreams = definitions.datastreams
        look, sightings = self.look(cluster, datastreams)
        names = [only] if only else sorted(look.topics)
        refs = {ref for datastream in datastreams for ref in (datastream.source, datastream.destination)}
        aliases = {cluster, *self.known.same_as(cluster, refs, look.cluster_id)}
        sources = {datastream.source for datastream in datastreams}
        topics_of = {ref: look.topics if ref == cluster else self.topics(ref) for ref in sources}
        found = [
            TopicEvidence(
                cluster,
                name,
                look.topics[name],
                sightings.get(name),
                selectors_of(name, datastreams, aliases, topics_of),
                look.unknown_groups,
                (),
            )
            for name in names
            if name in look.topics
        ]
        return self._with_policies(cluster, found, rules)

    def _with_policies(
        self, cluster: ClusterRef, found: Sequence[TopicEvidence], rules: UnusedRules
    ) -> list[TopicEvidence]:
        """Add the reasons to keep each topic. Only the settings of otherwise unused topics are read."""
        now_ms = self.clock.now_ms()
        first = [judged(topic, rules, now_ms) for topic in found]
        names = [topic.topic for topic in first if topic.is_unused]
        policies = self.ask(cluster, partial(compacted, topics=names)) if names else {}
        return [
            judged(
                replace(topic, look=replace(topic.look, is_compacted=policies.get(topic.topic))),
                rules,
                now_ms,
            )
            if topic.is_unused
            else topic
            for topic in first
        ]

    def _own_groups(self, cluster: ClusterRef, datastreams: Sequence[Datastream]) -> OwnGroups:
        commits: dict[str, dict[TopicPartition, int]] = {}
        for datastream in datastreams:
            if datastream.destination != cluster or not datastream.following_groups.is_on:
                continue
            stored = self.followed_groups(cluster, GroupKeys(datastream.group, datastream.name))
            for name, group in stored.groups.items():
                for position in group.positions.values():
                    if position.synced is not None:
                        commits.setdefault(name, {})[position.copy] = position.synced.target
        return OwnGroups(frozenset(datastream.consumer_group for datastream in datastreams), commits)
