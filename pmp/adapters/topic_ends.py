"""End offsets of a topic."""

from __future__ import annotations

from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from librdkafka.errors import translate
from librdkafka.settings import client_settings
from mirror.settings import KafkaCluster

_TIMEOUT_SECONDS: Final = 10.0


def topic_ends(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """Return the end offset of each partition. Raises Unreachable, Refused."""
    admin = AdminClient(client_settings(cluster, "headrace-ends"))
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    try:
        numbers = admin.list_topics(topic, timeout=_TIMEOUT_SECONDS).topics[topic].partitions
        wanted = {TopicPartition(topic, number): latest for number in numbers}
        answers = admin.list_offsets(wanted, request_timeout=_TIMEOUT_SECONDS) if wanted else {}
        return {partition.partition: future.result().offset for partition, future in answers.items()}
    except KafkaException as error:
        raise translate(error, f"reading the ends of {topic}") from error
