"""Inspects a cluster: brokers, authorized operations, settings, quotas, disk space."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, TypeVar

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka.session import ClusterSession
from mirror.adapters.settings import KafkaCluster
from mirror.client.calls import make_call
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.model.clusters import address_of
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import metadata
from mirror.protocol.control.rights import (
    LogFolder,
    Rights,
    client_quotas,
    cluster_rights,
    log_folders,
    release,
    topic_rights,
)
from mirror.protocol.control.topics import describe_each

_T = TypeVar("_T")
_AT_ONCE: Final = 500
_USER, _CLIENT_ID = "user", "client-id"


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """State of a broker, as found by an inspection.

    `problem`: reason why the broker is unreachable. The other fields are unknown if the broker is
    unreachable.
    """

    broker: int
    address: str
    problem: str = ""
    release: str = ""
    """Latest Kafka release whose requests the broker supports."""
    folders: tuple[LogFolder, ...] | None = None
    """Log directories; None if the broker does not report them."""
    round_trip_seconds: float = 0.0
    """Shortest round trip measured by the kernel; 0 if it is unknown."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """State of a topic, as found by an inspection.

    `rights`, `settings`: None if the broker does not report them.
    """

    name: str
    error: int
    rights: Rights | None
    partitions: int = 0
    leaderless: tuple[int, ...] = ()
    settings: Mapping[str, str] | None = None
    problem: str = ""
    """Reason why the settings cannot be read."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """State of a cluster, as found by an inspection.

    `rights`, `quotas`: None if the cluster does not report them. `why`: reasons for missing facts.
    """

    identity: str
    brokers: tuple[BrokerFacts, ...]
    rights: Rights | None
    quotas: Mapping[str, float] | None
    topics: Mapping[str, TopicFacts] = field(default_factory=dict)
    why: tuple[str, ...] = ()


class ClusterSurvey:
    """Inspects one cluster with the credentials in its settings.

    `seconds`: timeout of an inspection.
    """

    def __init__(self, settings: KafkaCluster, client_id: str, loop: LoopThread, seconds: float) -> None:
        self._settings = settings
        self._client_id = client_id
        self._loop = loop
        self._seconds = seconds
        access = partial(usable_access, settings)
        self._session = ClusterSession(
            settings.bootstrap_servers, client_id, access, request_seconds=seconds / 3
        )

    def describe(self, topics: Sequence[str]) -> ClusterFacts:
        """Return facts about the cluster and the given topics. Raises Unreachable, NotAuthorized,
        ConfigError."""
        operation = f"cannot describe the topics of {self._settings.bootstrap_servers}"
        return self._loop.ask(
            operation, self._seconds, lambda loop: self._session.ask(loop, self._facts(topics))
        )

    def names(self) -> frozenset[str]:
        """Return the names of the topics that the user may see. Raises the errors of `describe`."""

        async def names(cluster: Cluster) -> frozenset[str]:
            return frozenset(await cluster.all_topics())

        operation = f"cannot list the topics of {self._settings.bootstrap_servers}"
        return self._loop.ask(operation, self._seconds, lambda loop: self._session.ask(loop, names))

    def close(self) -> None:
        """Close the connections in the background."""
        self._loop.post(lambda _: self._session.close())

    def _facts(self, topics: Sequence[str]) -> Callable[[Cluster], Coroutine[Any, Any, ClusterFacts]]:
        return partial(_describe, topics, self._settings.security.username, self._client_id)


async def _describe(topics: Sequence[str], user: str, client_id: str, cluster: Cluster) -> ClusterFacts:
    await cluster.refresh(())
    why: list[str] = []
    brokers = await cluster.loop.together([_broker(cluster, broker) for broker in sorted(cluster.brokers)])
    rights = await _unless_refused(cluster, cluster_rights(), why)
    quotas: dict[str, float] | None = {}
    for entity, name in ((_USER, user), (_CLIENT_ID, client_id)):
        found = await _unless_refused(cluster, client_quotas(entity, name), why) if name else None
        if found is not None and found.error:
            doing, right = f"cannot read the quotas of {entity} {name}", "DescribeConfigs on the cluster"
            why.append(str(cluster.error(found.error, doing, right)))
        if name and (found is None or found.error):
            quotas = None
        elif found is not None and quotas is not None:
            quotas.update({f"{key} of {entity} {name}": value for key, value in found.values.items()})
    facts: dict[str, TopicFacts] = {}
    for start in range(0, len(topics), _AT_ONCE):
        facts |= await _topics(cluster, topics[start : start + _AT_ONCE], why)
    return ClusterFacts(cluster.cluster_id, tuple(brokers), rights, quotas, facts, tuple(why))


async def _broker(cluster: Cluster, broker: int) -> BrokerFacts:
    endpoint = cluster.brokers[broker]
    address = address_of(endpoint.host, endpoint.port)
    try:
        connection = await cluster.connection(broker, "survey")
    except HeadraceError as error:
        return BrokerFacts(broker, address, str(error))
    try:
        folders = await make_call(connection, log_folders(), cluster.timeout_seconds)
    except HeadraceError:  # too old to report them
        folders = ()
    readable = tuple(folder for folder in folders if not folder.error)
    supported = release(connection.features.versions)
    return BrokerFacts(broker, address, "", supported, readable or None, connection.round_trip())


async def _unless_refused(cluster: Cluster, call: Call[_T], why: list[str]) -> _T | None:
    try:
        return await cluster.ask(call)
    except HeadraceError as error:
        if error.retriable:
            raise
        why.append(str(error))
        return None


async def _topics(cluster: Cluster, names: Sequence[str], why: list[str]) -> dict[str, TopicFacts]:
    rights = await _unless_refused(cluster, topic_rights(names), why) or {}
    settings = await cluster.ask(describe_each(names)) if names else {}
    facts: dict[str, TopicFacts] = {}
    for topic in (await cluster.ask(metadata(names))).topics:
        described, allowed = settings.get(topic.name), rights.get(topic.name)
        problem = ""
        if described is not None and described.error:
            doing = f"cannot read the settings of {topic.name}"
            right = f"DescribeConfigs on topic {topic.name}"
            problem = str(cluster.error(described.error, doing, right, described.message))
        facts[topic.name] = TopicFacts(
            topic.name,
            topic.error,
            allowed.rights if allowed is not None and not allowed.error else None,
            len(topic.leaders),
            tuple(number for number, (leader, _) in enumerate(topic.leaders) if leader < 0),
            None
            if described is None or described.error
            else {key: setting.value for key, setting in described.settings.items()},
            problem,
        )
    return facts
