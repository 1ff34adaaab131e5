"""Positions of a consumer group at its source, on a real broker."""

from __future__ import annotations

from time import time
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.model.movement.history import UNLIMITED, Retention
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


def test_the_record_that_waits_says_its_age_and_its_topic_how_long_it_is_kept(source_kafka: Broker) -> None:
    topic = f"ages-{uuid4().hex[:8]}"
    make_topic(source_kafka.address, topic, 3, retention_ms="86400000")
    now_ms = int(time() * 1000)
    ages_ms = [7_200_000, 3_600_000, 60_000]
    records = [Record(0, b"k", b"v", (), now_ms - age_ms) for age_ms in ages_ms]
    records += [Record(1, b"k", b"v", (), now_ms - 600_000)] * 500
    produce(source_kafka.address, topic, records)
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=source_kafka.address))
    first, second, empty = (TopicPartition(topic, number) for number in range(3))
    for offset, age_ms in enumerate(ages_ms):
        found = admin.first_records({first: offset, second: 250, empty: 0})
        assert found[first].retention == Retention(86_400_000, UNLIMITED)
        written_ms = found[first].written_ms
        assert written_ms is not None
        assert abs(written_ms - (now_ms - age_ms)) <= age_ms / 100
        written_ms = found[second].written_ms
        assert written_ms is not None
        assert abs(written_ms - (now_ms - 600_000)) <= 6_000
        assert found[empty].written_ms is None
    gone = TopicPartition(f"{topic}-gone", 0)
    assert admin.first_records({gone: 0}) == {}
    assert admin.first_records({}) == {}
