"""Measurements reach a real topic as Avro under their keys; where nothing can be reached they are dropped."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pytest

from mirror.adapters.metric_topic import RecordTopic, mirror_metric_topic, placement_event_topic
from mirror.model.metrics import MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, row_of
from mirror.settings import KafkaCluster, KafkaSecurity
from stack.kafka import KafkaCluster as Cluster
from stack.ports import free_ports
from tests.kafka_data import make_topic, read_all
from tests.metrics_data import a_measurement
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers


def an_event(epoch: int) -> PlacementEvent:
    return PlacementEvent(
        time_ms=1_795_000_000_000,
        event_key=f"{epoch}",
        kind="plan",
        plan_epoch=epoch,
        instance="one",
        datastream="orders",
        topic="",
        kafka_partition=-1,
        from_task="",
        to_task="",
        from_instance="",
        to_instance="",
        bytes_per_second=0.0,
        sentence="ümlaut → arrow",
    )


METRICS = [
    a_measurement("orders", "source", number, 1_795_000_000_000 + number, 20, 3) for number in range(5)
]
EVENTS = [an_event(number) for number in range(5)]


@pytest.mark.parametrize(
    ("make", "record", "records", "keys"),
    [
        (mirror_metric_topic, MirrorMetric, METRICS, [f"source/t/{number}" for number in range(5)]),
        (placement_event_topic, PlacementEvent, EVENTS, [f"{number}" for number in range(5)]),
    ],
)
def test_records_arrive_whole_under_their_keys(
    destination_kafka: Cluster,
    make: Callable[[KafkaCluster, str], RecordTopic[Any]],
    record: type[Any],
    records: list[Any],
    keys: list[str],
) -> None:
    name = f"records-{uuid4().hex[:8]}"
    make_topic(destination_kafka.address, name, 3)
    topic = make(KafkaCluster(bootstrap_servers=destination_kafka.address), name)
    topic.publish(records[:2])
    topic.publish(records[2:])
    topic.close(PATIENCE_SECONDS)
    topic.close(PATIENCE_SECONDS)
    found = read_all(destination_kafka.address, name)
    schema = fastavro.parse_schema(avro_schema(record))
    decoded = {
        one.key: fastavro.schemaless_reader(io.BytesIO(one.value or b""), schema, None) for one in found
    }
    assert decoded == {key.encode(): row_of(one) for key, one in zip(keys, records, strict=True)}
    assert len(found) == len(records)
    assert topic.dropped == 0


def test_where_nothing_answers_records_are_dropped_and_counted() -> None:
    """Eight mebibytes wait for the cluster to come; what finds no room there is not waited for."""
    nowhere = KafkaCluster(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}")
    topic = placement_event_topic(nowhere, "nobody")
    large = [replace(an_event(0), sentence="x" * 100_000)] * 10
    for _ in range(20):
        topic.publish(large)
    assert 0 < topic.dropped < 200
    topic.close(0.1)


def test_without_credentials_records_are_dropped_and_nothing_is_raised(tmp_path: Path) -> None:
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_file=str(tmp_path / "no-token")
    )
    topic = placement_event_topic(KafkaCluster(bootstrap_servers="127.0.0.1:1", security=security), "nobody")
    topic.publish([an_event(0), an_event(1)])
    assert topic.dropped == 2
    topic.close(0.1)
