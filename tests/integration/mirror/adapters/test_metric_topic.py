"""Measurements are written to a real topic as Avro with their keys, and dropped if it is unreachable."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pytest
from structlog.testing import capture_logs

from mirror.adapters.metric_topic import RecordTopic, mirror_metric_topic, placement_event_topic
from mirror.model.metrics import ChangeKind, Drops, MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, row_of
from mirror.settings import KafkaCluster, KafkaSecurity
from stack.kafka import KafkaCluster as Cluster
from stack.ports import free_ports
from tests.fakes.clock import ManualClock
from tests.kafka_data import make_topic, read_all
from tests.metrics_data import a_measurement
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]


def an_event(epoch: int) -> PlacementEvent:
    return PlacementEvent(
        time_ms=1_795_000_000_000,
        event_key=f"{epoch}",
        kind=ChangeKind.PLAN,
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
    assert topic.drops() == Drops()


def test_what_finds_no_room_or_no_broker_is_dropped_and_counted_once_each() -> None:
    """Eight mebibytes wait for the cluster for a limited time; the rest is dropped at once."""
    nowhere = KafkaCluster(bootstrap_servers=f"127.0.0.1:{free_ports(1)[0]}")
    topic = RecordTopic[PlacementEvent](nowhere, "nobody", PlacementEvent, lambda _: "", 1.0)
    large = [replace(an_event(0), sentence="x" * 100_000)] * 10
    with capture_logs() as told:
        for _ in range(20):
            topic.publish(large)
        at_once = topic.drops()
        assert 0 < at_once.count < 200
        assert "Queue full" in at_once.reason
        wait_until(lambda: topic.drops().count == 200, "the queued records are dropped")
        topic.close(0.1)
    assert topic.drops().count == 200
    assert len([event for event in told if event["event"].startswith("records dropped")]) == 1


def test_a_broker_that_stands_still_drops_records_until_it_is_back(new_kafka: NewKafka) -> None:
    clock, cluster = ManualClock(), new_kafka()
    name = f"frozen-{uuid4().hex[:8]}"
    make_topic(cluster.address, name)
    where = KafkaCluster(bootstrap_servers=cluster.address)
    topic = RecordTopic[PlacementEvent](where, name, PlacementEvent, lambda _: "", 1.0, clock.monotonic)
    topic.publish(EVENTS)
    wait_until(lambda: len(read_all(cluster.address, name)) == 5, "the records are delivered")
    assert topic.drops() == Drops()
    with capture_logs() as told:
        cluster.nodes[0].suspend()
        topic.publish(EVENTS)
        wait_until(lambda: topic.drops().count == 5, "the records are dropped")
        assert topic.drops().reason
        clock.advance(5.0)
        cluster.nodes[0].resume()
        topic.publish(EVENTS)
        wait_until(lambda: len(read_all(cluster.address, name)) >= 10, "records are delivered again")
        assert topic.drops().reason, "reported as over, although a queue is only full now and then"
        clock.advance(20.0)
        assert topic.drops() == Drops(5)
        assert topic.drops() == Drops(5)
    topic.close(PATIENCE_SECONDS)
    begin, end = told
    assert (begin["topic"], bool(begin["reason"]), "dropped" in begin) == (name, True, False)
    assert (end["topic"], end["dropped"]) == (name, 5)


def test_without_credentials_records_are_dropped_and_nothing_is_raised(tmp_path: Path) -> None:
    security = KafkaSecurity(
        protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", token_file=str(tmp_path / "no-token")
    )
    topic = placement_event_topic(KafkaCluster(bootstrap_servers="127.0.0.1:1", security=security), "nobody")
    topic.publish([an_event(0), an_event(1)])
    assert topic.drops().count == 2
    topic.close(0.1)
