"""Where a consumer group stands at its source, as a real broker says."""

from __future__ import annotations

from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.model.topics import SourcePosition, TopicPartition
from stack.kafka import KafkaCluster as Broker
from tests.kafka_data import Record, make_topic, produce

pytestmark = pytest.mark.servers


def test_what_a_group_has_committed_is_told_with_the_ends_of_its_partitions(
    source_kafka: Broker,
) -> None:
    topic = f"positions-{uuid4().hex[:8]}"
    make_topic(source_kafka.address, topic, 2, retention_ms="-1")
    produce(source_kafka.address, topic, [Record(0, b"k", b"v", (), 1_700_000_000_000)] * 5)
    consumer = Consumer({"bootstrap.servers": source_kafka.address, "group.id": topic})
    consumer.commit(offsets=[ClientPartition(topic, 0, 2)], asynchronous=False)
    consumer.close()
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=source_kafka.address))
    partitions = [TopicPartition(topic, number) for number in range(2)]
    for _ in range(20):
        assert admin.positions(topic, partitions) == {
            partitions[0]: SourcePosition(2, 0, 5),
            partitions[1]: SourcePosition(None, 0, 0),
        }
