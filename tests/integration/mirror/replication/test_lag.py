"""The age of what waits, where the last delivery says nothing of it: by real clusters."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from mirror.model.metrics import MirrorMetric
from tests.engines import EngineUnderTest, write
from tests.kafka_data import Record, make_topic
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

HOUR_MS: Final = 3_600_000


def a_record(value: bytes = b"v", age_ms: int = HOUR_MS) -> Record:
    return Record(0, b"k", value, (), int(time.time() * 1000) - age_ms)


def new_topic(kafka_pair: KafkaPair, **settings: str) -> str:
    """In both clusters; the settings are the destination's."""
    topic = f"lag-{uuid4().hex[:8]}"
    make_topic(kafka_pair.source.address, topic)
    make_topic(kafka_pair.destination.address, topic, 1, **settings)
    return topic


def last(metrics: Sequence[MirrorMetric], topic: str) -> MirrorMetric:
    (one,) = [metric for metric in metrics if metric.topic == topic]
    return one


def test_what_an_open_transaction_holds_back_has_no_age(
    engine: EngineUnderTest, kafka_pair: KafkaPair
) -> None:
    topic = new_topic(kafka_pair)
    write(kafka_pair.source.address, topic, [a_record()])
    engine.start(topic)
    engine.run_to(topic, [1])
    settings = {"bootstrap.servers": kafka_pair.source.address, "transactional.id": topic}
    producer = Producer(settings)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(60)
    lane = engine.lane(topic)
    engine.run_until(lambda: lane.high_watermark == 2, "the open transaction is seen")
    metric = last(engine.engine.metrics(), topic)
    assert (metric.lag_records, metric.lag_ms) == (1, 0)
    producer.commit_transaction(60)
    engine.run_to(topic, [3])
    metric = last(engine.engine.metrics(), topic)
    assert (metric.lag_records, metric.lag_ms) == (0, 0)


def test_a_lane_that_has_delivered_nothing_is_as_late_as_what_waits(
    engine: EngineUnderTest, kafka_pair: KafkaPair
) -> None:
    topic = new_topic(kafka_pair, max_message_bytes="1000")
    write(kafka_pair.source.address, topic, [a_record(b"x" * 5_000)])
    engine.start(topic)
    engine.run_until(engine.paused, "the record does not fit")
    metric = last(engine.engine.metrics(), topic)
    assert metric.lag_records == 1
    assert metric.lag_ms is not None
    assert metric.lag_ms >= HOUR_MS
