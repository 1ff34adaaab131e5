"""Admin client for the topics of one cluster. Implements `ports.TopicAdmin`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread, shared_loop
from mirror.adapters.kafka.record_times import record_times
from mirror.adapters.kafka.session import REQUEST_SECONDS, ClusterSession
from mirror.adapters.settings import KafkaCluster
from mirror.adapters.system_clock import SystemClock
from mirror.client.administration.creation import TopicCreations
from mirror.client.administration.deletion import remove_topic
from mirror.client.administration.description import describe_topics
from mirror.client.administration.extension import TopicExtensions
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.model.bounds import REACH_SECONDS
from mirror.model.identifiers import ClusterRef
from mirror.model.movement.history import UNKNOWN_RETENTION, Retention
from mirror.model.topics import SourcePosition, TopicCreation, TopicDescription, TopicPartition, WaitingRecord
from mirror.ports import Clock
from mirror.protocol.codes import MISSING, Code
from mirror.protocol.control.cluster import GROUP, TopicMetadata, metadata, topic_counts
from mirror.protocol.control.offsets import EARLIEST, LATEST, committed_offsets
from mirror.protocol.control.topics import (
    describe_settings,
    retention_of,
)
from mirror.wording import counted

_T = TypeVar("_T")
_DEADLINE_SECONDS: Final = 30.0
"""Timeout of a call in seconds. A call sends several requests at most."""
_ATTEMPTS_SHARE: Final = 0.9
"""Share of a call's timeout for all attempts, so that the caller gets the error of the last attempt."""
_AT_ONCE: Final = 500
_LEADER_SECONDS: Final = 2.0
"""Maximum seconds by which partitions without a leader delay other partitions of the same call."""


class KafkaAdmin:
    """Thread-safe admin client for one cluster.

    The client connects on first use, and closes idle connections. All clients with the same `loop` share a
    thread; by default, all clients of the process do. A call takes at most `deadline_seconds`, retries
    included, and then raises the error of its last attempt. The call fails at once if no address accepts a
    connection. If an address accepts connections but does not respond, only one call at a time waits for this
    address.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        replication_factor: int = -1,
        *,
        loop: LoopThread | None = None,
        deadline_seconds: float = _DEADLINE_SECONDS,
    ) -> None:
        self._deadline_seconds = deadline_seconds
        self._name = cluster.bootstrap_servers
        self._replication_factor = replication_factor
        self._loop = loop or shared_loop()
        self._attempts_seconds = _ATTEMPTS_SHARE * deadline_seconds
        self._session = ClusterSession(
            self._name,
            "headrace-admin",
            partial(usable_access, cluster),
            request_seconds=min(REQUEST_SECONDS, self._attempts_seconds),
            reach_seconds=min(REACH_SECONDS, self._attempts_seconds),
        )
        self.illegal_topics = 0

    def cluster_id(self) -> str:
        """Return the cluster id."""
        return self._ask(f"cannot describe {self._name}", _identity)

    def list_topics(self) -> Mapping[str, int]:
        """Return a mapping of topic name to partition count, including internal topics."""
        counts, self.illegal_topics = self._ask(f"cannot list the topics of {self._name}", _listed)
        return counts

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return the partition count and the topic-level settings of each topic, or the error that prevented
        reading the settings."""
        return self._ask(f"cannot describe {counted(len(topics), 'topic')}", partial(_describe, topics))

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Return the topics for which the broker returns TOPIC_AUTHORIZATION_FAILED.

        Requests metadata by topic name, because only this response includes unauthorized topics. Never
        creates topics.
        """
        if not topics:
            return frozenset()
        return self._ask(f"cannot describe topics of {self._name}", partial(_hidden, topics))

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Return the first and end offset of each partition that has a leader.

        Includes the committed offset of `group`, unless `group` is empty.
        """
        if not partitions:
            return {}
        return self._ask(f"cannot read offsets of {self._name}", partial(_positions, group, partitions))

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """Return the write time of the first record at or after each offset, and the retention of its topic.

        The retention is unknown if Headrace has no right to read the settings.
        """
        if not places:
            return {}
        now_ms = SystemClock().now_ms()
        return self._ask(f"cannot read the age of records of {self._name}", partial(_waiting, places, now_ms))

    def create(self, topic: TopicDescription) -> Sequence[str]:
        """Create a topic, unless it exists. Returns a message for each setting that was adjusted."""
        made = self.create_each([topic])[topic.name]
        if made.error is not None:
            raise made.error
        return made.adjustments

    def create_each(self, topics: Sequence[TopicDescription]) -> Mapping[str, TopicCreation]:
        """Create each topic that does not exist, and map each topic name to its result."""
        names = [topic.name for topic in topics]
        return self._change_each("cannot create", names, TopicCreations(topics, self._replication_factor))

    def grow_each(self, partitions: Mapping[str, int]) -> Mapping[str, TopicCreation]:
        """Increase the partition count of each topic, and map each topic name to its result."""
        return self._change_each("cannot add partitions to", [*partitions], TopicExtensions(partitions))

    def _change_each(
        self, doing: str, names: Sequence[str], changes: TopicCreations
    ) -> Mapping[str, TopicCreation]:
        what = f"topic {names[0]}" if len(names) == 1 else counted(len(names), "topic")
        try:
            self._ask(f"{doing} {what}", changes.run)
        except HeadraceError as error:
            if not (error.retriable and changes.results):
                raise
            return dict.fromkeys(names, TopicCreation(error)) | changes.results
        return changes.results

    def delete(self, topic: str) -> None:
        """Delete a topic if it exists."""
        self._ask(f"cannot delete topic {topic}", partial(remove_topic, topic=topic))

    def close(self) -> None:
        """Close the connections in the background; the next call opens new connections."""
        self._loop.post(lambda _: self._session.close())

    def _ask(self, operation: str, question: Callable[[Cluster], Coroutine[Any, Any, _T]]) -> _T:
        session, seconds = self._session, self._attempts_seconds
        return self._loop.ask(
            operation, self._deadline_seconds, lambda loop: session.ask(loop, question, seconds)
        )


async def _identity(cluster: Cluster) -> str:
    return (await cluster.ask(metadata([]))).cluster_id


async def _listed(cluster: Cluster) -> tuple[Mapping[str, int], int]:
    """Map each topic to its partition count. Also return the number of topics with illegal names."""
    found = await cluster.ask(topic_counts())
    counts = {name: found[name] for name in cluster.topic_names.legal(found)}
    return counts, len(found) - len(counts)


async def _named(cluster: Cluster, names: Sequence[str]) -> list[TopicMetadata]:
    found: list[TopicMetadata] = []
    for page in _pages(names):
        wanted = set(page)
        found += [topic for topic in (await cluster.ask(metadata(page))).topics if topic.name in wanted]
    return found


async def _describe(names: Sequence[str], cluster: Cluster) -> dict[str, TopicDescription]:
    counts = (await _listed(cluster))[0] if names else {}
    return await describe_topics(cluster, {name: counts[name] for name in names if name in counts})


async def _hidden(names: Sequence[str], cluster: Cluster) -> frozenset[str]:
    hidden = set()
    for topic in await _named(cluster, names):
        if topic.error == Code.TOPIC_AUTHORIZATION_FAILED:
            hidden.add(topic.name)
        elif topic.error and topic.error not in MISSING:
            doing = f"cannot describe topic {topic.name} of {cluster.name}"
            raise cluster.error(topic.error, doing, f"Describe on topic {topic.name}")
    return frozenset(hidden)


async def _positions(
    group: str, partitions: Sequence[TopicPartition], cluster: Cluster
) -> dict[TopicPartition, SourcePosition]:
    first = await _offsets(cluster, partitions, EARLIEST)
    end = await _offsets(cluster, list(first), LATEST)
    committed = await _committed(cluster, group, list(end)) if group else {}
    return {
        partition: SourcePosition(committed.get(partition), first[partition], end[partition])
        for partition in end
    }


async def _waiting(
    places: Mapping[TopicPartition, int], now_ms: int, cluster: Cluster
) -> dict[TopicPartition, WaitingRecord]:
    times = await record_times(cluster, places, now_ms)
    settings: dict[str, Retention] = {}
    for page in _pages(sorted({place.topic for place in times})):
        found = await cluster.ask(describe_settings(page))
        settings |= {name: retention_of(described) for name, described in found.items()}
    return {
        partition: WaitingRecord(written_ms, settings.get(partition.topic, UNKNOWN_RETENTION))
        for partition, written_ms in times.items()
    }


async def _offsets(
    cluster: Cluster, partitions: Sequence[TopicPartition], when: int
) -> dict[TopicPartition, int]:
    answers = await cluster.offsets(dict.fromkeys(partitions, when), seconds=_LEADER_SECONDS)
    found = {place: answer.offset for place, answer in answers.items() if not answer.error}
    if answers and not found:
        place, answer = next(iter(answers.items()))
        doing = f"cannot read the offsets of {place} of {cluster.name}"
        raise cluster.error(answer.error, doing, f"Describe on topic {place.topic}")
    return found


async def _committed(
    cluster: Cluster, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    if not partitions:
        return {}
    call = committed_offsets(group, partitions)
    found = await cluster.coordinators.ask(GROUP, group, call, lambda answer: answer.error)
    if found.error:
        doing = f"cannot read the committed offsets of group {group} of {cluster.name}"
        raise cluster.error(found.error, doing, f"Describe on group {group}")
    return {place: answer.offset for place, answer in found.offsets.items() if not answer.error}


def _pages(names: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), _AT_ONCE):
        yield names[start : start + _AT_ONCE]


_IDLE_SECONDS: Final = 60.0
_MOST: Final = 500
"""Maximum number of admin clients in the pool, because callers may choose any cluster address.

The least recently used admin client is dropped.
"""


class AdminPool:
    """Thread-safe pool with one admin client for each cluster. Idle clients are dropped and disconnected."""

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
