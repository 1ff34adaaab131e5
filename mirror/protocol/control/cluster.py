"""Requests for broker versions, metadata and coordinators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafka.protocol.metadata import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import CONTROL_BYTES, Call, Fields
from mirror.protocol.frame import View
from mirror.protocol.topic_counts import FROM as COUNTS_FROM
from mirror.protocol.topic_counts import TopicCounts, decode_counts

NO_TOPIC_ID: Final = bytes(16)
"""Topic id on clusters before Kafka 2.8, which have no topic ids."""
_CLIENT: Final = "headrace"
_TOPIC_BYTES: Final = 1024 * 1024
"""Maximum size of the metadata of one topic; enough for about 10,000 partitions."""
_CLUSTER_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of the metadata of all topics; enough for more than a million partitions."""


class BrokerFeatures(NamedTuple):
    """Features of a broker: version ranges for each API key, and the level of each finalised feature.

    An `error` of 35 means that the request must be repeated with version 0.
    """

    error: int
    versions: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]


def api_versions() -> Call[BrokerFeatures]:
    """Return a request for the API versions and features that the broker supports."""
    fields = {"client_software_name": _CLIENT, "client_software_version": "1"}
    return Call(ApiVersionsRequest, ApiVersionsResponse, (0, 3), fields, _features)


def _features(response: Any) -> BrokerFeatures:
    return BrokerFeatures(
        response.error_code,
        {key.api_key: (key.min_version, key.max_version) for key in response.api_keys},
        {feature.name: feature.max_version_level for feature in response.finalized_features or ()},
    )


class Endpoint(NamedTuple):
    """Address on which a broker listens."""

    host: str
    port: int


class TopicMetadata(NamedTuple):
    """Metadata of a topic: its id, and the leaders of its partitions.

    `leaders`: (broker id, leader epoch) by partition number; broker -1 means no leader. `topic_id` is
    `NO_TOPIC_ID` on clusters without topic ids.
    """

    name: str
    error: int
    topic_id: bytes
    internal: bool
    leaders: tuple[tuple[int, int], ...]

    @property
    def partitions(self) -> list[TopicPartition]:
        """Partitions of the topic, in order."""
        return [TopicPartition(self.name, number) for number in range(len(self.leaders))]

    @property
    def is_ready(self) -> bool:
        """True if the topic exists and every partition has a leader."""
        return not self.error and all(leader >= 0 for leader, _ in self.leaders)


class ClusterMetadata(NamedTuple):
    """Metadata of a cluster: its brokers, keyed by id, and the requested topics."""

    cluster_id: str
    controller: int
    brokers: Mapping[int, Endpoint]
    topics: tuple[TopicMetadata, ...]


def metadata(topics: Sequence[str] | None) -> Call[ClusterMetadata]:
    """Return a request for the brokers and the named topics (None: all topics). Never creates a topic."""
    wanted = None if topics is None else [{"name": name} for name in topics]
    fields = {"topics": wanted, "allow_auto_topic_creation": False}
    return Call(MetadataRequest, MetadataResponse, (4, 12), fields, _metadata, metadata_bytes(topics))


def replica_counts(topics: Sequence[str]) -> Call[Mapping[str, int]]:
    """Return a request for each topic's smallest number of replicas. Topics with an error are omitted."""
    whole = metadata(topics)

    def read(response: Any) -> Mapping[str, int]:
        return {
            topic.name: min((len(partition.replica_nodes) for partition in topic.partitions), default=0)
            for topic in response.topics
            if not topic.error_code
        }

    return Call(MetadataRequest, MetadataResponse, whole.versions, whole.fields, read, whole.most_bytes)


def metadata_bytes(topics: Sequence[str] | None) -> int:
    """Return the size limit in bytes for a metadata response about the given topics (None: all topics)."""
    return _CLUSTER_BYTES if topics is None else CONTROL_BYTES + len(topics) * _TOPIC_BYTES


def topic_counts() -> Call[Mapping[str, int]]:
    """Return a request for the partition count of every topic without an error. Never creates a topic."""
    whole = metadata(None)

    def read(response: Any) -> Mapping[str, int]:
        if isinstance(response, TopicCounts):
            return response.counts
        return {topic.name: len(topic.leaders) for topic in whole.read(response).topics if not topic.error}

    return Call(MetadataRequest, _FastResponse, whole.versions, whole.fields, read, whole.most_bytes)


class _FastResponse:
    """Replacement for response classes of kafka-python that decode too slowly."""

    @staticmethod
    def decode(body: View, version: int) -> Any:
        """Decode a Metadata response as `TopicCounts`, or as kafka-python's class for old versions."""
        return (
            decode_counts(version, body)
            if version >= COUNTS_FROM
            else MetadataResponse.decode(body, version=version)
        )


def _metadata(response: Any) -> ClusterMetadata:
    brokers = {broker.node_id: Endpoint(broker.host, broker.port) for broker in response.brokers}
    topics = tuple(_topic(topic) for topic in response.topics)
    return ClusterMetadata(response.cluster_id or "", response.controller_id, brokers, topics)


def _topic(topic: Any) -> TopicMetadata:
    known = {
        partition.partition_index: (partition.leader_id, partition.leader_epoch)
        for partition in topic.partitions
    }
    count = max(known, default=-1) + 1
    leaders = tuple(known.get(number, (-1, -1)) for number in range(min(count, len(known))))
    identity = topic.topic_id.bytes if topic.topic_id else NO_TOPIC_ID
    return TopicMetadata(topic.name or "", topic.error_code, identity, bool(topic.is_internal), leaders)


GROUP: Final = 0
TRANSACTION: Final = 1
MANY_COORDINATORS_FROM: Final = 4


class Coordinator(NamedTuple):
    """Broker that coordinates a consumer group or a transactional id."""

    error: int
    node: int
    endpoint: Endpoint


def find_coordinators(kind: int, keys: Sequence[str]) -> Call[Mapping[str, Coordinator]]:
    """Return a request for the coordinators of several keys. Versions before 4 accept only one key."""

    def fields(version: int) -> Fields:
        if version >= MANY_COORDINATORS_FROM:
            return {"key_type": kind, "coordinator_keys": list(keys)}
        return {"key_type": kind, "key": keys[0]}

    def read(response: Any) -> Mapping[str, Coordinator]:
        if response.coordinators:
            return {coordinator.key: _coordinator(coordinator) for coordinator in response.coordinators}
        return {keys[0]: _coordinator(response)}

    return Call(FindCoordinatorRequest, FindCoordinatorResponse, (1, 6), fields, read)


def _coordinator(answer: Any) -> Coordinator:
    return Coordinator(answer.error_code, answer.node_id, Endpoint(answer.host, answer.port))
