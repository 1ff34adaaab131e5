"""Reads end offsets, sizes and consumer groups of all topics of a cluster.

The read fails if any broker does not list its groups, because a topic with unknown readers would count as
unused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from mirror.client.cluster import Cluster
from mirror.coordination.stores.cluster_ids import KnownClusters
from mirror.coordination.stores.definitions import Definitions
from mirror.coordination.topic_use import (
    ClusterObservation,
    TopicEvidence,
    TopicHistory,
    TopicObservation,
    TopicReader,
    UnusedRules,
    judged,
    selectors_of,
)
from mirror.errors import HeadraceError, IllegalTransition, Refused, Unreachable
from mirror.jobs.groups.record import GroupKeys, StoredGroups
from mirror.jobs.groups.source import listed
from mirror.jobs.retirement.store import TopicUseStore
from mirror.jobs.translate_job import committed_at
from mirror.model.datastreams.datastream import Datastream, clusters_of
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import GROUP, NO_TOPIC_ID, TopicMetadata
from mirror.protocol.control.groups import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    DescribedGroup,
    ListedGroup,
    describe_consumer_group,
    describe_group,
    describe_share_group,
    describe_streams_group,
)
from mirror.protocol.control.offsets import EARLIEST, LATEST
from mirror.protocol.control.rights import topic_bytes
from mirror.protocol.control.topics import describe_settings

_AT_ONCE: Final = 16
_SETTINGS_AT_ONCE: Final = 200
_FINGERPRINT: Final = 16
_DESCRIPTIONS: Final = {
    CLASSIC: describe_group,
    CONSUMER: describe_consumer_group,
    SHARE: describe_share_group,
    STREAMS: describe_streams_group,
    "": describe_group,
}
"""Maps each group type to the request that describes the members of a group.

Brokers before Kafka 3.8 do not report the type, which is then classic or consumer.
"""

GroupCommits = Mapping[str, Mapping[TopicPartition, int]]


class OwnGroups(NamedTuple):
    """Consumer groups and commits of Headrace itself, which do not count as use of a topic.

    `names`: groups under which Headrace commits its own positions. `commits`: offsets that Headrace has
    committed for other applications.
    """

    names: frozenset[str] = frozenset()
    commits: GroupCommits = MappingProxyType({})


class _Group(NamedTuple):
    """Topics of a consumer group: those with committed offsets, and those that members subscribe to (None if
    unknown)."""

    committed: frozenset[str]
    subscribed: frozenset[str] | None
    has_members: bool


async def observe_topics(cluster: Cluster, own: OwnGroups) -> ClusterObservation:
    """Return the current state of every topic of a cluster. Raises Unreachable, NotAuthorized."""
    topics = {name: metadata for name, metadata in (await cluster.all_topics()).items() if not metadata.error}
    groups = await _groups(cluster, own)
    readers: dict[str, list[TopicReader]] = {}
    for name, group in sorted(groups.items()):
        for topic in sorted(group.committed | (group.subscribed or frozenset())):
            readers.setdefault(topic, []).append(
                TopicReader(name, group.has_members, topic in group.committed)
            )
    places = [place for metadata in topics.values() for place in metadata.partitions]
    ends = await _offsets(cluster, places, LATEST)
    starts = await _offsets(cluster, places, EARLIEST)
    sizes = await _sizes(cluster)
    observations = {
        name: _observation(
            metadata, ends, starts, None if sizes is None else sizes.get(name, 0), readers.get(name, ())
        )
        for name, metadata in topics.items()
    }
    unknown = tuple(sorted(name for name, group in groups.items() if group.subscribed is None))
    return ClusterObservation(cluster.cluster_id, observations, unknown)


async def compacted(cluster: Cluster, topics: Sequence[str]) -> Mapping[str, bool]:
    """Map each topic to whether it is compacted. Topics with unreadable settings are omitted."""
    found: dict[str, bool] = {}
    for start in range(0, len(topics), _SETTINGS_AT_ONCE):
        answer = await cluster.ask(describe_settings(topics[start : start + _SETTINGS_AT_ONCE]))
        for name, settings in answer.items():
            if "cleanup.policy" in settings:
                found[name] = "compact" in settings["cleanup.policy"].value
    return found


def _observation(
    topic: TopicMetadata,
    ends: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    size: int | None,
    readers: Sequence[TopicReader],
) -> TopicObservation:
    places = topic.partitions
    is_known = all(place in ends for place in places)
    records = None
    if is_known and all(place in starts for place in places):
        records = sum(ends[place] - starts[place] for place in places)
    text = ",".join(str(ends[place]) for place in places) if is_known else ""
    return TopicObservation(
        "" if topic.topic_id == NO_TOPIC_ID else topic.topic_id.hex(),
        len(places),
        hashlib.sha256(text.encode()).hexdigest()[:_FINGERPRINT] if is_known else "",
        records,
        size,
        tuple(readers),
        topic.internal,
    )


async def _offsets(
    cluster: Cluster, places: Collection[TopicPartition], when: int
) -> Mapping[TopicPartition, int]:
    answers = await cluster.offsets(dict.fromkeys(places, when))
    return {place: answer.offset for place, answer in answers.items() if not answer.error}


async def _sizes(cluster: Cluster) -> Mapping[str, int] | None:
    """Return the size of each topic in bytes over all replicas, or None if a broker does not report sizes."""
    sums: dict[str, int] = {}
    for broker in sorted(cluster.brokers):
        try:
            found = await cluster.ask(topic_bytes(), broker)
        except Refused:
            return None
        if not found:  # the user may not read them
            return None
        for topic, size in found.items():
            sums[topic] = sums.get(topic, 0) + size
    return sums


async def _groups(cluster: Cluster, own: OwnGroups) -> Mapping[str, _Group]:
    listing = await listed(cluster)
    if not listing.is_complete:
        raise Unreachable(
            f"some brokers of {cluster.name} did not list their groups, so readers are unknown",
            advice="retry when all brokers respond",
        )
    names = sorted(listing.groups.keys() - own.names)
    found: dict[str, _Group] = {}
    for start in range(0, len(names), _AT_ONCE):
        chunk = names[start : start + _AT_ONCE]
        groups = await cluster.loop.together(
            _group(cluster, name, listing.groups[name], own.commits.get(name, {})) for name in chunk
        )
        found.update(zip(chunk, groups, strict=True))
    return found


async def _group(
    cluster: Cluster, name: str, listed_group: ListedGroup, own: Mapping[TopicPartition, int]
) -> _Group:
    describe = _DESCRIPTIONS.get(listed_group.kind)
    if describe is None:  # a type that this version does not know
        return _Group(frozenset(), None, listed_group.has_members)
    try:
        offsets = await committed_at(cluster, name, listed_group.kind)
        described = DescribedGroup(0, frozenset())
        if listed_group.has_members or not listed_group.state:
            described = await _describe(cluster, name, describe(name))
    except HeadraceError as error:
        if error.retriable:
            raise
        return _Group(frozenset(), None, listed_group.has_members)
    committed = frozenset(
        place.topic
        for place, offset in offsets.items()
        if listed_group.has_members or own.get(place) != offset
    )
    return _Group(committed, described.topics, listed_group.has_members or bool(described.topics))


async def _describe(cluster: Cluster, name: str, call: Call[DescribedGroup]) -> DescribedGroup:
    found = await cluster.coordinators.ask(GROUP, name, call, lambda answer: answer.error)
    if found.error:
        raise cluster.error(found.error, f"cannot describe group {name}", f"Describe on group {name}")
    return found


_T = TypeVar("_T")


class ClusterCalls(Protocol):
    """Function that runs a call with the client of a cluster."""

    def __call__(self, cluster: ClusterRef, question: Callable[[Cluster], Coroutine[Any, Any, _T]], /) -> _T:
        """Run a call and return its result. Raises Unreachable if the cluster does not respond in time."""
        ...


@dataclass(frozen=True)
class TopicWatch:
    """Reads which topics of a cluster are in use, and stores each observation.

    `topics`: callback that returns the topics of a cluster, None if unknown. `followed_groups`: callback that
    returns the stored consumer groups of a datastream.
    """

    store: TopicUseStore
    known: KnownClusters
    ask: ClusterCalls
    topics: Callable[[ClusterRef], Collection[str] | None]
    followed_groups: Callable[[ClusterRef, GroupKeys], StoredGroups]
    clock: Clock

    def observe(
        self, cluster: ClusterRef, datastreams: Sequence[Datastream]
    ) -> tuple[ClusterObservation, Mapping[str, TopicHistory]]:
        """Read and store the current state of all topics of a cluster.

        Raises Unreachable, NotAuthorized, VersionConflict.
        """
        own = self._own_groups(cluster, datastreams)
        found = self.ask(cluster, partial(observe_topics, own=own))
        return found, self.store.note(cluster, found, self.clock.now_ms())

    def evidence(
        self, cluster: ClusterRef, definitions: Definitions, rules: UnusedRules, only: str = ""
    ) -> list[TopicEvidence]:
        """Return the evidence of use for each topic of a cluster.

        `only`: name of a single topic; empty for all topics. Raises the errors of `observe`, and
        IllegalTransition if a definition is unreadable.
        """
        if not definitions.is_whole:
            raise IllegalTransition(
                "cannot determine which topics are in use: a damaged definition may select any topic",
                advice="find it with headrace datastream list; repair or delete it",
            )
        datastreams = definitions.datastreams
        observation, histories = self.observe(cluster, datastreams)
        names = [only] if only else sorted(observation.topics)
        refs = clusters_of(datastreams)
        aliases = {cluster, *self.known.same_as(cluster, refs, observation.cluster_id)}
        sources = {datastream.source for datastream in datastreams}
        topics_of = {ref: observation.topics if ref == cluster else self.topics(ref) for ref in sources}
        found = [
            TopicEvidence(
                cluster,
                name,
                observation.topics[name],
                histories.get(name),
                selectors_of(name, datastreams, aliases, topics_of),
                observation.unknown_groups,
                (),
            )
            for name in names
            if name in observation.topics
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
                replace(
                    topic, observation=replace(topic.observation, is_compacted=policies.get(topic.topic))
                ),
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
