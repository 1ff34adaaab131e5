"""Creates the two topics of the store on first use, and checks them when an instance starts.

Acknowledged commands must survive the loss of a broker. Retention must not delete commands; only
`DeleteRecords` requests may.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror.adapters.settings import SNAPSHOT_SUFFIX
from mirror.client.administration.creation import create_adjusted
from mirror.client.cluster import Cluster
from mirror.errors import ConfigError, Unreachable
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.cluster import replica_counts
from mirror.protocol.control.topics import describe_each
from mirror.wording import counted

_REPLICAS: Final = 3
"""Replication factor of new topics, unless the cluster has fewer brokers."""
_COMMON: Final = {"unclean.leader.election.enable": "false", "retention.ms": "-1", "retention.bytes": "-1"}
_LOG: Final = {**_COMMON, "cleanup.policy": "delete", "segment.bytes": str(64 * 1024 * 1024)}
_SNAPSHOTS: Final = {
    **_COMMON,
    "cleanup.policy": "compact",
    "segment.bytes": str(64 * 1024 * 1024),
    "segment.ms": str(3_600_000),
    "min.cleanable.dirty.ratio": "0.1",
}
_BEING_CREATED: Final = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.LEADER_NOT_AVAILABLE)
_BATCH_MARGIN: Final = 4 * 1024
"""Size of a batch without its records, in bytes."""


@dataclass(frozen=True, slots=True)
class StoreTopics:
    """The two topics of the store, after `check_topics` has accepted them.

    `log_id`: topic id of the log in hexadecimal digits; empty if the cluster has no topic ids.
    `largest_bytes`: maximum size of the records in a batch that both topics accept. `replicas`: the lower
    replication factor of the two topics.
    """

    log: TopicPartition
    snapshots: TopicPartition
    log_id: str
    largest_bytes: int
    replicas: int


def _required(topic: str) -> dict[str, Mapping[str, str]]:
    """Return a mapping of topic name to required settings, for both topics of the store."""
    return {topic: _LOG, f"{topic}{SNAPSHOT_SUFFIX}": _SNAPSHOTS}


async def missing_topics(cluster: Cluster, topic: str) -> Sequence[str]:
    """Return the topics of the store that do not exist. Raises Unreachable."""
    names = list(_required(topic))
    await cluster.refresh(names)
    return [name for name in names if cluster.topics[name].error == Code.UNKNOWN_TOPIC_OR_PARTITION]


async def ensure_topics(cluster: Cluster, topic: str, replication_factor: int) -> StoreTopics:
    """Create missing topics, and check their settings.

    `replication_factor`: replication factor of new topics; -1 means three, or the number of brokers if there
    are fewer. Raises the errors of `check_topics`.
    """
    for name in await missing_topics(cluster, topic):
        await _create(cluster, name, _required(topic)[name], replication_factor)
    return await check_topics(cluster, topic)


async def check_topics(cluster: Cluster, topic: str) -> StoreTopics:
    """Check both topics of the store. Raises NotAuthorized, Refused, Unreachable; ConfigError."""
    required = _required(topic)
    await cluster.refresh(required)
    for name in required:
        _check_metadata(cluster, name)
    described = await cluster.ask(describe_each(list(required)))
    replicas = await cluster.ask(replica_counts(list(required)))
    wrong, largest = [], []
    for name, settings in required.items():
        found = described[name]
        if found.error in _BEING_CREATED or name not in replicas:
            raise Unreachable(f"topic {name} of {cluster.name} is being created")
        if found.error:
            right = f"DescribeConfigs on topic {name}"
            raise cluster.error(found.error, f"cannot describe topic {name}", right, found.message)
        values = {key: setting.value for key, setting in found.settings.items()}
        wrong += list(_problems(name, values, settings, replicas[name], len(cluster.brokers)))
        largest.append(int(values["max.message.bytes"]))
    if wrong:
        raise ConfigError(
            f"the topics of the coordination store on {cluster.name} are unsuitable: {'; '.join(wrong)}",
            advice="correct them with kafka-configs.sh or kafka-reassign-partitions.sh"
            " (docs/coordination-store.md)",
        )
    return StoreTopics(
        TopicPartition(topic, 0),
        TopicPartition(f"{topic}{SNAPSHOT_SUFFIX}", 0),
        cluster.topic_id(topic).hex(),
        max(min(largest) - _BATCH_MARGIN, _BATCH_MARGIN),
        min(replicas.values()),
    )


async def _create(cluster: Cluster, name: str, settings: Mapping[str, str], replication_factor: int) -> None:
    replicas = replication_factor if replication_factor > 0 else min(_REPLICAS, len(cluster.brokers))
    settings = {**settings, "min.insync.replicas": str(2 if replicas >= _REPLICAS else 1)}
    await create_adjusted(cluster, TopicDescription(name, 1, settings=settings), replicas)


def _check_metadata(cluster: Cluster, name: str) -> None:
    """Raise an error unless the topic has exactly one partition with a leader."""
    topic = cluster.topics[name]
    if topic.error in _BEING_CREATED:
        raise Unreachable(f"topic {name} of {cluster.name} is being created")
    if topic.error:
        raise cluster.error(topic.error, f"cannot read metadata of topic {name}", f"Describe on topic {name}")
    if len(topic.leaders) > 1:
        raise ConfigError(
            f"topic {name} of {cluster.name} has {counted(len(topic.leaders), 'partition')}, but the"
            " coordination log needs exactly one",
            advice="set coordination.topic to a new name",
        )


def _problems(
    name: str, values: Mapping[str, str], required: Mapping[str, str], replicas: int, brokers: int
) -> Iterator[str]:
    least = int(values["min.insync.replicas"])
    if least > replicas:
        yield (
            f"{name} has {counted(replicas, 'replica')} but min.insync.replicas {least}, so nothing can be"
            " written"
        )
    if replicas == 1 and brokers > 1:
        yield f"{name} has one replica although the cluster has {brokers} brokers: set at least 2, better 3"
    if replicas >= _REPLICAS and least == 1:
        yield f"{name} has min.insync.replicas 1: set 2, or one failed broker can lose acknowledged changes"
    for key in ("cleanup.policy", "unclean.leader.election.enable", "retention.ms", "retention.bytes"):
        is_irrelevant = key.startswith("retention") and required["cleanup.policy"] == "compact"
        if not is_irrelevant and values.get(key, required[key]) != required[key]:
            yield f"{name} has {key} {values[key]}: set {required[key]}"
