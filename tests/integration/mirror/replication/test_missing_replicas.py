"""A destination without a replica: partitions that need it wait with a reason, and block no others."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import NewTopic

from stack.kafka import KafkaCluster
from tests.engines import EngineUnderTest, check_copy, write
from tests.kafka_data import Record, admin_client, make_topic
from tests.patience import PATIENCE_SECONDS
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

NOW = int(time.time() * 1000)
PARTITIONS = 6


def records(first: int, count: int) -> list[Record]:
    return [
        Record(number % PARTITIONS, b"k%d" % number, b"v" * 400, (), NOW + number)
        for number in range(first, first + count)
    ]


def make(cluster: KafkaCluster, topic: str, nodes: list[int], **config: str) -> None:
    """Create a topic whose partitions all have these replicas, led by the first."""
    admin = admin_client(cluster.address)
    new = NewTopic(topic, PARTITIONS, replica_assignment=[nodes] * PARTITIONS, config=config)
    admin.create_topics([new])[topic].result(PATIENCE_SECONDS)


def test_partitions_without_enough_replicas_say_why_and_hold_up_no_others(
    new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    source = new_kafka("source")
    alone = {"default.replication.factor": 1, "transaction.state.log.replication.factor": 1}
    target = new_kafka("destination", nodes=2, properties={**alone, "transaction.state.log.min.isr": 1})
    for topic in ("safe", "plain"):
        make_topic(source.address, topic, PARTITIONS)
    make(target, "safe", [1, 2], **{"min.insync.replicas": "2"})
    make(target, "plain", [1])
    engine = new_engine(source.address, target.address)
    for topic in ("safe", "plain"):
        engine.start(topic, PARTITIONS)
        write(source.address, topic, records(0, 60))
        engine.run_to(topic, [10] * PARTITIONS)
    safe, plain = (
        [engine.lane(topic, number) for number in range(PARTITIONS)] for topic in ("safe", "plain")
    )

    target.nodes[1].kill()
    write(source.address, "safe", records(60, 60))
    for first in range(60, 360, 60):
        write(source.address, "plain", records(first, 60))
        engine.run_to("plain", [(first + 60) // PARTITIONS] * PARTITIONS)
        assert all(lane.checkpoint == 10 for lane in safe)
    engine.run_until(
        lambda: all(
            "safe-" in lane.observed.stalled_by and ", since 2" in lane.observed.stalled_by for lane in safe
        ),
        "the waiting lanes report the reason",
    )
    assert all(
        "REQUEST_TIMED_OUT" in lane.observed.stalled_by or "NOT_ENOUGH_REPLICAS" in lane.observed.stalled_by
        for lane in safe
    )
    assert not any(lane.observed.stalled_by for lane in plain)
    write(source.address, "plain", records(360, 60))
    engine.run_to("plain", [70] * PARTITIONS)
    assert not {lane.writer for lane in safe} & {lane.writer for lane in plain}, "they share a request"

    target.nodes[1].start()
    engine.run_to("safe", [20] * PARTITIONS)
    engine.run_until(lambda: not any(lane.observed.stalled_by for lane in safe), "no lane waits")
    write(source.address, "safe", records(120, 60))
    engine.run_to("safe", [30] * PARTITIONS)
    assert not any(lane.queue.is_slow for lane in safe)
    assert (check_copy(engine, "safe", PARTITIONS), check_copy(engine, "plain", PARTITIONS)) == (180, 420)
    engine.stop()
