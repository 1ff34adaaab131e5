"""A consumer group reads at the source under load, stops, and continues at the destination: no record is
skipped, and none is read again. Members at the destination are never overruled."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from headrace.__main__ import app
from tests.e2e.conftest import NewInstance
from tests.kafka_data import commit_positions, counts, group_positions, make_topic
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers

PARTITIONS: Final = 2
NOWHERE: Final = "127.0.0.1:1"


def invoked(instance: RunningInstance, *words: str) -> dict[str, Any]:
    """Run a command that must succeed; return its document."""
    at = [] if words[0] == "translate" else ["--at", instance.address]
    result = CliRunner().invoke(app, [*words, *at, "--json"], env=dict(instance.environment))
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def abort_records(address: str, topic: str) -> None:
    """Write records of an aborted transaction to a new topic. They are not mirrored, so offsets differ."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"aborted", partition=partition)
    assert producer.flush(60) == 0
    producer.abort_transaction()
    # Brokers may write the markers after the response.
    wait_until(lambda: counts(address, [topic])[topic] == 2 * PARTITIONS, "the markers are written")


@contextmanager
def numbered_records(address: str, topic: str) -> Iterator[Counter[int]]:
    """Write numbered records to all partitions within the context; yield their count by partition."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "acks": "all"})
    written: Counter[int] = Counter()
    stopping = threading.Event()

    def write() -> None:
        while not stopping.wait(0.005):
            for partition in range(PARTITIONS):
                producer.produce(topic, str(written[partition]).encode(), partition=partition)
                written[partition] += 1
            producer.poll(0)

    thread = threading.Thread(target=write, name="numbered records")
    thread.start()
    try:
        yield written
    finally:
        stopping.set()
        thread.join()
        assert producer.flush(60) == 0


@contextmanager
def reading(address: str, group: str, topic: str, protocol: str) -> Iterator[Callable[[], list[Any]]]:
    """Join a group; yield a function that reads some records, commits, and returns (partition, number)."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )

    def read() -> list[Any]:
        messages = [one for one in consumer.consume(200, timeout=0.2) if one.error() is None]
        if messages:
            consumer.commit(asynchronous=False)
        return [(one.partition(), int(one.value() or b"")) for one in messages]

    consumer.subscribe([topic])
    try:
        yield read
    finally:
        consumer.close()


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.deep)])
def test_a_group_continues_at_the_destination(
    kafka_pair: KafkaPair, new_instance: NewInstance, protocol: str
) -> None:
    instance = new_instance("one")
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    topic, group = f"following-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    make_topic(source, topic, PARTITIONS)
    abort_records(source, topic)
    create = ("--source", "source", "--destination", "destination", "--topics", topic, "--owner", "tests")
    options = ("--guarantee", "exactly-once", "--groups", group, "--groups-interval", "1")
    invoked(instance, "datastream", "create", "over", *create, *options)

    def state() -> dict[str, Any]:
        found = instance.rest.get("/v1/datastreams/over/consumer-groups")["groups"]
        return found[0] if found else {"positions": [], "reasons": []}

    def has_followed(positions: list[int]) -> bool:
        found = state()["positions"]
        exact = [one["offset"] for one in found if one["follows"] and one["is_exact"]]
        return exact == positions

    seen: list[tuple[int, int]] = []

    def read_until(read: Callable[[], list[Any]], is_enough: Callable[[], bool]) -> None:
        def has_read() -> bool:
            seen.extend(read())
            return is_enough()

        wait_until(has_read, "records are read")

    with numbered_records(source, topic) as written:
        with reading(source, group, topic, protocol) as read:
            read_until(read, lambda: len(seen) >= 400 and len({one[0] for one in seen}) == PARTITIONS)
        at_source = group_positions(source, group, topic, PARTITIONS)
        wait_until(lambda: has_followed(at_source), "the positions have followed")
        assert group_positions(destination, group, topic, PARTITIONS) != at_source, "offsets are the same"
    with reading(destination, group, topic, protocol) as read:
        read_until(read, lambda: len(set(seen)) >= sum(written.values()))
        commit_positions(source, group, {(topic, number): 1 for number in range(PARTITIONS)})
        wait_until(lambda: "members there" in state()["reasons"], "the group has members there")
    assert Counter(seen) == {
        (partition, number): 1 for partition in range(PARTITIONS) for number in range(written[partition])
    }

    at_destination = group_positions(destination, group, topic, PARTITIONS)
    wait_until(lambda: state()["reasons"] == ["would move back"], "the group is ahead")
    assert group_positions(destination, group, topic, PARTITIONS) == at_destination

    assert invoked(instance, "groups", "explain", "over", group)["reasons"] == ["would move back"]

    sides = ("--source", NOWHERE, "--destination", "destination", "--state", "over", "--group", group)
    found = invoked(instance, "translate", *sides, "--as-group", f"{group}-2")
    assert found["as_of_ms"]
    assert [one["offset"] for one in found["positions"]] == [1, 1]


def test_a_group_returns_to_the_source(kafka_pair: KafkaPair, new_instance: NewInstance) -> None:
    """The group reads at the source, at the destination, and at the source again: each record once."""
    instance = new_instance("one")
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    topic, group = f"returning-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    make_topic(source, topic, PARTITIONS)
    abort_records(source, topic)
    create = ("--source", "source", "--destination", "destination", "--topics", topic, "--owner", "tests")
    options = ("--groups", group, "--groups-interval", "1", "--groups-direction", "both")
    invoked(instance, "datastream", "create", "back", *create, *options)
    seen: list[tuple[int, int]] = []

    def has_read(read: Callable[[], list[Any]], count: int) -> bool:
        seen.extend(read())
        return len(seen) >= count and len({partition for partition, _ in seen}) == PARTITIONS

    def follows(field: str, positions: list[int]) -> bool:
        found = instance.rest.get("/v1/datastreams/back/consumer-groups")["groups"]
        exact = [one[field] for group in found for one in group["positions"] if one["is_exact"]]
        return exact == positions and all(group["follows"] for group in found)

    with numbered_records(source, topic) as written:
        for address, field, count in ((source, "offset", 300), (destination, "to_offset", 600)):
            with reading(address, group, topic, "classic") as read:
                wait_until(partial(has_read, read, count), "records are read")
            there = group_positions(address, group, topic, PARTITIONS)
            wait_until(partial(follows, field, there), f"the positions at {field} are followed")
    with reading(source, group, topic, "classic") as read:
        wait_until(lambda: has_read(read, sum(written.values())), "all records are read")
    assert Counter(seen) == {
        (partition, number): 1 for partition in range(PARTITIONS) for number in range(written[partition])
    }
