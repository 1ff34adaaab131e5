"""Measures a cluster's partitions: metadata, end offsets and log sizes.

librdkafka returns metadata and end offsets, kafka-python the log sizes, because librdkafka has no
DescribeLogDirs. One measurement needs one Metadata request, one ListOffsets request per leader and one
DescribeLogDirs request per broker, whatever the number of partitions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import kafka.errors
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.admin import KafkaAdminClient

from librdkafka.errors import translate
from librdkafka.settings import client_settings
from mirror.errors import HeadraceError, NotAuthorized, Refused, Unreachable
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.protocol.control.sasl import TokenProvider
from mirror.settings import KafkaCluster
from mirror.tokens import token_from_file
from pmp.samples.look import LogSnapshot

_TIMEOUT_SECONDS: Final = 10.0
_NAME: Final = "headrace-sampler"
_REFUSALS: Final = (kafka.errors.AuthorizationError, kafka.errors.SaslAuthenticationFailedError)


class KafkaClusterProbe:
    """Implements `pmp.ports.ClusterProbe`. Connects at the first call; used by one thread."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._admin: AdminClient | None = None

    def look(self) -> LogSnapshot:
        """Read leaders, end offsets and log sizes, in this order.

        Raises Unreachable, NotAuthorized, Refused.
        """
        leaders = self._leaders()
        offsets = self._end_offsets(leaders)
        offsets_seconds = self._clock.monotonic()
        sizes = self._sizes(leaders)
        return LogSnapshot(
            time_ms=self._clock.now_ms(),
            offsets_seconds=offsets_seconds,
            sizes_seconds=self._clock.monotonic(),
            leaders=leaders,
            end_offsets=offsets,
            size_bytes=sizes,
        )

    def close(self) -> None:
        """Release the connection."""
        self._admin = None

    def _leaders(self) -> dict[TopicPartition, int]:
        if self._admin is None:
            self._admin = AdminClient(client_settings(self._cluster, _NAME))
        try:
            metadata = self._admin.list_topics(timeout=_TIMEOUT_SECONDS)
        except KafkaException as error:
            raise translate(error, f"listing partitions of {self._cluster.bootstrap_servers}") from error
        return {
            TopicPartition(topic, number): partition.leader
            for topic, description in metadata.topics.items()
            for number, partition in description.partitions.items()
            if partition.leader >= 0
        }

    def _end_offsets(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        assert self._admin is not None
        if not leaders:
            return {}
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        wanted = {ClientPartition(topic, number): latest for topic, number in leaders}
        ends = {}
        for partition, future in self._admin.list_offsets(wanted, request_timeout=_TIMEOUT_SECONDS).items():
            try:
                ends[TopicPartition(partition.topic, partition.partition)] = future.result().offset
            except KafkaException as error:
                problem = translate(error, f"reading the end of {partition.topic}-{partition.partition}")
                if not isinstance(problem, Unreachable | Refused):
                    raise problem from error
        return ends

    def _sizes(self, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the size of each partition's log on its leader."""
        # kafka-python logs every connection attempt; failures arrive here as exceptions. Its client would
        # keep reconnecting while a cluster is down, so it is closed after each request.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        try:
            with closing(KafkaAdminClient(**_python_settings(self._cluster))) as client:
                answers = client.describe_log_dirs()
        except kafka.errors.KafkaError as error:
            raise _problem(error, self._cluster.bootstrap_servers) from error
        return {
            partition: size
            for broker, partition, size in _entries(answers)
            if leaders.get(partition) == broker
        }


def _entries(answers: list[dict[str, Any]]) -> Iterator[tuple[int, TopicPartition, int]]:
    for answer in answers:
        for directory in answer["log_dirs"]:
            for topic in directory["topics"]:
                for partition in topic["partitions"]:
                    if not partition["is_future_key"]:
                        name = TopicPartition(topic["name"], partition["partition_index"])
                        yield answer["broker"], name, partition["partition_size"]


def _python_settings(cluster: KafkaCluster) -> dict[str, Any]:
    """Return the cluster's settings under kafka-python's names."""
    security = cluster.security
    given = {
        "ssl_cafile": security.ca_file,
        "ssl_certfile": security.certificate_file,
        "ssl_keyfile": security.key_file,
        "ssl_password": security.key_password.get_secret_value(),
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password.get_secret_value(),
        "sasl_kerberos_service_name": security.kerberos_service,
        "sasl_oauth_token_provider": security.token_file
        and TokenProvider(token_from_file(security.token_file)),
    }
    return {
        "bootstrap_servers": cluster.bootstrap_servers.split(","),
        "client_id": _NAME,
        "security_protocol": security.protocol,
        "request_timeout_ms": int(_TIMEOUT_SECONDS * 1000),
    } | {key: value for key, value in given.items() if value}


def _problem(error: kafka.errors.KafkaError, address: str) -> HeadraceError:
    text = f"reading log sizes of {address}: {error}"
    if isinstance(error, _REFUSALS):
        return NotAuthorized(text, advice="grant the sampler Describe on the cluster")
    if error.retriable or not isinstance(error, kafka.errors.BrokerResponseError):
        return Unreachable(text)
    return Refused(text)
