"""Requests for authorized operations, client quotas, and the disk space of brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeVar

from kafka.protocol import admin
from kafka.protocol.broker_version_data import infer_broker_version_from_api_versions
from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import MANY_BYTES, Call
from mirror.protocol.control.cluster import metadata_bytes

_T = TypeVar("_T")
_SIZE_NOT_SAID: Final = -1
_EXACTLY: Final = 0
_LOG_FOLDERS: Final = (admin.DescribeLogDirsRequest, admin.DescribeLogDirsResponse)


class AclOperation(IntEnum):
    """ACL operations that mirroring uses and their numbers in the protocol (KIP-430)."""

    READ = 3
    WRITE = 4
    CREATE = 5
    ALTER = 7
    DESCRIBE = 8
    DESCRIBE_CONFIGS = 10
    IDEMPOTENT_WRITE = 12


Rights = frozenset[AclOperation]


class TopicRights(NamedTuple):
    """Operations on a topic that this client may perform; None if the broker does not report them.

    `error`: error code of the topic.
    """

    error: int
    rights: Rights | None


class ClientQuotas(NamedTuple):
    """Client quotas, keyed by names such as `producer_byte_rate`, or the error code of the request."""

    error: int
    values: Mapping[str, float]


class LogFolder(NamedTuple):
    """A log directory of a broker; sizes are None if the broker is too old to report them."""

    error: int
    path: str
    total_bytes: int | None
    usable_bytes: int | None


def topic_rights(names: Sequence[str]) -> Call[Mapping[str, TopicRights]]:
    """Return a request for the operations that the client may perform on each topic. Never creates a topic.

    Requires Kafka 2.3 or later.
    """
    fields = {
        "topics": [{"name": name} for name in names],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": True,
    }

    def read(response: Any) -> Mapping[str, TopicRights]:
        return {
            topic.name: TopicRights(topic.error_code, _operations(topic.authorized_operations))
            for topic in response.topics
        }

    return Call(MetadataRequest, MetadataResponse, (8, 12), fields, read, metadata_bytes(names))


def cluster_rights() -> Call[Rights | None]:
    """Return a request for the operations that the client may perform on the cluster (Kafka 2.8 or later)."""
    return Call(
        admin.DescribeClusterRequest,
        admin.DescribeClusterResponse,
        (0, 1),
        {"include_cluster_authorized_operations": True},
        lambda response: _operations(response.authorized_operations),
    )


def client_quotas(entity: str, name: str) -> Call[ClientQuotas]:
    """Return a request for the quotas of exactly one `user` or `client-id`.

    Requires DescribeConfigs on the cluster.
    """
    component = {"entity_type": entity, "match_type": _EXACTLY, "match": name}

    def read(response: Any) -> ClientQuotas:
        values = {
            value.key: float(value.value) for entry in response.entries or () for value in entry.values or ()
        }
        return ClientQuotas(response.error_code, values)

    messages = (admin.DescribeClientQuotasRequest, admin.DescribeClientQuotasResponse)
    return Call(*messages, (0, 1), {"components": [component], "strict": True}, read)


def log_folders() -> Call[tuple[LogFolder, ...]]:
    """Return a request for the log directories of a broker (KIP-827). Requires Describe on the cluster."""
    return Call(*_LOG_FOLDERS, (1, 4), {"topics": []}, _folders)  # no topics: only the directories


def topic_bytes() -> Call[Mapping[str, int]]:
    """Return a request for the bytes of each topic in all log directories of a broker. Requires Describe on
    the cluster."""

    def read(response: Any) -> Mapping[str, int]:
        sums: dict[str, int] = {}
        for topic, partition in _replicas(response):
            sums[topic] = sums.get(topic, 0) + partition.partition_size
        return sums

    return _log_sizes(read)


class LogSizes(NamedTuple):
    """Size of each replica of a broker in bytes. `error`: code of a rejected request, without sizes."""

    error: int
    sizes: Mapping[TopicPartition, int]


def partition_bytes() -> Call[LogSizes]:
    """Return a request for the bytes of each replica of a broker. Requires Describe on the cluster."""

    def read(response: Any) -> LogSizes:
        sizes = {
            TopicPartition(topic, partition.partition_index): partition.partition_size
            for topic, partition in _replicas(response)
            if not partition.is_future_key  # a copy that will replace the replica
        }
        return LogSizes(getattr(response, "error_code", None) or 0, sizes)

    return _log_sizes(read)


def _log_sizes(read: Callable[[Any], _T]) -> Call[_T]:
    return Call(*_LOG_FOLDERS, (1, 4), {"topics": None}, read, MANY_BYTES)


def _replicas(response: Any) -> Iterator[tuple[str, Any]]:
    """Yield the topic and the description of each replica in a response."""
    for result in response.results:
        for topic in result.topics:
            for partition in topic.partitions:
                yield topic.name, partition


def release(versions: Mapping[int, tuple[int, int]]) -> str:
    """Return the latest Kafka release, such as `3.9`, whose API versions a broker supports.

    `versions`: version ranges by API key. The broker may be newer than that release, or a different product.
    """
    return ".".join(map(str, infer_broker_version_from_api_versions(dict(versions))))


def _folders(response: Any) -> tuple[LogFolder, ...]:
    return tuple(
        LogFolder(
            result.error_code,
            result.log_dir,
            _size(getattr(result, "total_bytes", None)),
            _size(getattr(result, "usable_bytes", None)),
        )
        for result in response.results
    )


def _size(value: int | None) -> int | None:
    return None if value in (None, _SIZE_NOT_SAID) else value


def _operations(bits: Set[int] | None) -> Rights | None:
    """Return the authorized operations in a response, or None if the broker omits them. Decodes the bit field
    of kafka-python."""
    return None if bits is None else frozenset(operation for operation in AclOperation if operation in bits)
