"""Test the writers of the fault schedules on a real broker."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from stack.kafka import KafkaCluster
from tests.chaos.service.reader import read_topic
from tests.chaos.service.tenants import Style
from tests.chaos.service.traffic import BrokerUnreachable, Writer
from tests.patience import PATIENCE_SECONDS, wait_until

pytestmark = pytest.mark.servers


def test_a_producer_that_hears_nothing_of_a_grown_topic_is_replaced(source_kafka: KafkaCluster) -> None:
    topic = f"deaf-{uuid4().hex[:8]}"
    writer = Writer(source_kafka.address, topic, 1, Style(), 20.0, deaf_seconds=3.0)
    writer._producer = Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    writer.start()
    writer.grow()
    nobody = threading.Event()
    wait_until(lambda: read_topic(source_kafka.address, topic, 2, nobody)[1], "the new partition has records")
    assert writer.finish(PATIENCE_SECONDS)


def test_a_producer_whose_transaction_is_never_answered_is_given_up(source_kafka: KafkaCluster) -> None:
    topic = f"deaf-{uuid4().hex[:8]}"
    writer = Writer(source_kafka.address, topic, 1, Style(is_transactional=True), 20.0, deaf_seconds=3.0)
    writer.start()
    nobody = threading.Event()
    wait_until(lambda: read_topic(source_kafka.address, topic, 1, nobody)[0], "the topic has records")
    assert writer.finish(PATIENCE_SECONDS)
    deaf = Producer({"bootstrap.servers": "127.0.0.1:1", "transactional.id": topic, "log_level": 0})
    with pytest.raises(BrokerUnreachable):
        writer._again(deaf.init_transactions)
