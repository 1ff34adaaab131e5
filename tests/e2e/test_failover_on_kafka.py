"""A cluster that dies under traffic, the failover and the way back, killed with -9 at every step."""

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
from confluent_kafka import Producer
from typer.testing import CliRunner

from headrace.__main__ import app
from headrace.dr.tail import REPLAYED_HEADER
from mirror.jobs.dr.operation import STEPS, Kind
from stack.process.suspension import freeze, thaw
from tests.e2e.conftest import NewInstance
from tests.e2e.pair_site import kill_at
from tests.kafka_data import Record, commit_positions, group_positions, make_topic, produce, read_all
from tests.mirrored import some_records
from tests.patience import wait_until
from tests.running import RunningInstance
from tests.servers import KafkaPair, NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.deep]

PARTITIONS: Final = 2
GAINED: Final = 30
TAIL: Final = 200
"""Records that a cluster acknowledges before it dies and that are not mirrored, at least."""
Content = tuple[int, bytes | None]


def content_of(record: Record) -> Content:
    return record.partition, record.value


def invoked(instance: RunningInstance, *words: str, code: int = 0) -> Any:
    """Run a command; return its document."""
    arguments = ["dr", *words, "--at", instance.address, "--json"]
    result = CliRunner().invoke(app, arguments, env=dict(instance.environment))
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def killed_everywhere(instance: RunningInstance, kinds: list[Kind], *words: str) -> Any:
    """Run a command to its end, after it was killed at the beginning of each of its steps."""
    for step in (step for kind in kinds for step in STEPS[kind]):
        kill_at(instance, step, "dr", *words)
    return invoked(instance, *words)


@contextmanager
def writing(address: str, topic: str) -> Iterator[Callable[[], int]]:
    """Write to all partitions until the end of the context; yield the number of acknowledged records."""
    producer = Producer({"bootstrap.servers": address, "linger.ms": 1, "message.timeout.ms": 2_000})
    acknowledged: list[object] = []
    stopping = threading.Event()

    def note(error: object, message: object) -> None:
        if error is None:
            acknowledged.append(message)

    def write() -> None:
        number = 0
        while not stopping.wait(0.001):
            producer.produce(topic, b"flow %d" % number, partition=number % PARTITIONS, on_delivery=note)
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=write, name="producer")
    thread.start()
    try:
        yield lambda: len(acknowledged)
    finally:
        stopping.set()
        thread.join()
        producer.flush(10)


def test_the_loss_equals_the_difference_and_nothing_is_copied_twice(
    kafka_pair: KafkaPair, new_kafka: NewKafka, new_instance: NewInstance
) -> None:
    lost, there = new_kafka("lost"), kafka_pair.destination.address
    topic, group = f"orders-{uuid4().hex[:8]}", f"billing-{uuid4().hex[:8]}"
    instance = new_instance(
        "one",
        clusters__source__bootstrap_servers=lost.address,
        dr__pair__primary="source",
        dr__pair__standby="destination",
        dr__pair__datastreams='["over"]',
        dr__pair__groups=group,
        dr__pair__still_seconds="1",
    )

    def found(address: str) -> Counter[Content]:
        return Counter(map(content_of, read_all(address, topic)))

    def has(address: str, count: int) -> bool:
        return found(address).total() >= count

    make_topic(lost.address, topic, PARTITIONS)
    ways = ("--source", "source", "--destination", "destination", "--topics", topic, "--owner", "tests")
    words = ["datastream", "create", "over", *ways, "--groups", group, "--at", instance.address]
    assert CliRunner().invoke(app, words, env=dict(instance.environment)).exit_code == 0
    with writing(lost.address, topic) as acknowledged:
        wait_until(partial(has, there, 200), "records are mirrored")
        commit_positions(lost.address, group, {(topic, 0): 7, (topic, 1): 3})
        wait_until(lambda: group_positions(there, group, topic, PARTITIONS) == [7, 3], "the group follows")
        wait_until(partial(has, there, acknowledged()), "records are mirrored")
        frozen = freeze(instance.pid)
        tail_end = acknowledged() + TAIL
        wait_until(lambda: acknowledged() >= tail_end, "records are written that will not be mirrored")
        lost.kill()
        thaw(frozen)

    failover = ("failover", "pair", "--to", "destination", "--max-loss", "1000000-records")
    figure = invoked(instance, *failover, "--dry-run")["loss"]
    assert killed_everywhere(instance, [Kind.FAILOVER], *failover)["active"] == "destination"
    copied = found(there)
    produce(there, topic, some_records(PARTITIONS, GAINED, "gained"))
    gained = found(there) - copied

    lost.start()
    wait_until(partial(has, lost.address, 1), "the lost cluster is back")
    tail = found(lost.address) - copied
    assert not copied - found(lost.address)
    rows = invoked(instance, "tail", "list", "pair")["partitions"]
    assert {row["partition"]: row["records"] for row in rows} == Counter(
        place for place, _ in tail.elements()
    )
    known = {row["partition"]: row["most"] for row in figure["partitions"]}
    assert None not in known.values()
    assert sum(known.values()) <= tail.total()
    assert "records" in invoked(instance, "failback", "pair", code=1)["failure"]

    killed_everywhere(instance, [Kind.REPLAY], "tail", "replay", "pair")
    assert found(there) == copied + gained + tail
    replayed = [one for one in read_all(there, topic) if REPLAYED_HEADER in dict(one.headers)]
    assert Counter(map(content_of, replayed)) == tail

    before = found(lost.address).total()
    back = killed_everywhere(instance, [Kind.FAILBACK, Kind.SWITCHOVER], "failback", "pair")
    assert (back["active"], back["failure"]) == ("source", "")
    assert found(lost.address).total() - before == (gained + tail).total(), "only the new records are copied"
    produce(lost.address, topic, some_records(PARTITIONS, 10, "after"))
    total = (copied + gained + tail).total()
    wait_until(partial(has, there, total + 10), "records are mirrored again")
    assert found(there).total() == total + 10
