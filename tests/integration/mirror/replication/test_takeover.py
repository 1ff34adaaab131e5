"""Takeover from another mirror: lanes start at the committed offsets of its consumer group."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Place

from mirror.model.datastreams.datastream import StartPosition
from tests.engines import EngineUnderTest, look_all, write
from tests.kafka_data import Record, make_topic
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)


def fill(engine: EngineUnderTest, topic: str, partitions: int, count: int = 20) -> None:
    """Write `count` records to each partition in batches of five, so that positions are within batches."""
    make_topic(engine.source, topic, partitions)
    make_topic(engine.destination, topic, partitions)
    for partition in range(partitions):
        records = [Record(partition, b"k", b"%d" % number, (), NOW) for number in range(count)]
        write(engine.source, topic, records, per_batch=5)


def commit(address: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Commit offsets like another mirror."""
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    consumer.commit(
        offsets=[Place(topic, partition, offset) for partition, offset in offsets.items()], asynchronous=False
    )
    consumer.close()


def committed(address: str, group: str, topic: str, partition: int) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    (place,) = consumer.committed([Place(topic, partition)], timeout=PATIENCE_SECONDS)
    consumer.close()
    return int(place.offset)


def numbers(engine: EngineUnderTest, topic: str, partitions: int) -> list[list[int]]:
    found = look_all(engine.destination, topic, range(partitions))
    return [[int(record.value or b"-1") for record in found[number]] for number in range(partitions)]


@pytest.mark.parametrize(
    ("start", "uncommitted"),
    [(StartPosition.COMMITTED, list(range(20))), (StartPosition.COMMITTED_OR_LATEST, [])],
)
def test_lanes_begin_where_the_group_stood(
    engine: EngineUnderTest, start: StartPosition, uncommitted: list[int]
) -> None:
    topic = f"taken-{start}"
    fill(engine, topic, 3)
    commit(engine.source, f"{topic}-group", topic, {0: 7, 1: 20})
    engine.start(topic, 3, start=start, consumer_group=f"{topic}-group")
    engine.run_to(topic, [20, 20, 20])
    assert numbers(engine, topic, 3) == [list(range(7, 20)), [], uncommitted]
    engine.run_until(
        lambda: committed(engine.source, f"{topic}-group", topic, 0) == 20,
        "the lane commits offsets of the group",
    )


def test_a_checkpoint_of_ours_counts_for_more_than_the_group(engine: EngineUnderTest) -> None:
    fill(engine, "taken-once", 1)
    commit(engine.source, "taken-once", "taken-once", {0: 15})
    engine.start("taken-once", start=StartPosition.COMMITTED, consumer_group="taken-once")
    engine.run_to("taken-once", [20])
    engine.stop()
    commit(engine.source, "taken-once", "taken-once", {0: 3})
    second = EngineUnderTest(engine.source, engine.destination)
    second.start("taken-once", start=StartPosition.COMMITTED, consumer_group="taken-once")
    write(engine.source, "taken-once", [Record(0, b"k", b"20", (), NOW)])
    second.run_to("taken-once", [21])
    second.stop()
    assert numbers(engine, "taken-once", 1) == [list(range(15, 21))]


def test_other_datastreams_do_not_look_at_the_group(engine: EngineUnderTest) -> None:
    fill(engine, "taken-not", 1)
    commit(engine.source, "taken-not", "taken-not", {0: 15})
    engine.start("taken-not", consumer_group="taken-not")
    engine.run_to("taken-not", [20])
    assert numbers(engine, "taken-not", 1) == [list(range(20))]


def test_two_datastreams_of_one_topic_begin_each_at_its_own_group(engine: EngineUnderTest) -> None:
    fill(engine, "taken-both", 1)
    for name, offset in (("one", 4), ("two", 12)):
        make_topic(engine.destination, f"taken-{name}")
        commit(engine.source, f"taken-{name}", "taken-both", {0: offset})
        engine.start(
            "taken-both",
            destination=f"taken-{name}",
            start=StartPosition.COMMITTED,
            consumer_group=f"taken-{name}",
        )
    make_topic(engine.destination, "taken-three")
    make_topic(engine.destination, "taken-four")
    engine.start("taken-both", destination="taken-three")
    engine.start("taken-both", destination="taken-four")
    for name in ("one", "two", "three", "four"):
        engine.run_to("taken-both", [20], destination=f"taken-{name}")
        assert engine.lane("taken-both", 0, f"taken-{name}").progress.gaps == []
    assert engine.paused() == []
    assert [numbers(engine, f"taken-{name}", 1)[0][0] for name in ("one", "two", "three", "four")] == [
        4,
        12,
        0,
        0,
    ]
