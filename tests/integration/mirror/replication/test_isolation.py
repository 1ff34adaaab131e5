"""Failures of one partition at the source, missing rights, and old formats.

They need a separate broker, with an authorizer and modified log files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.acls import PERMISSIVE, Forbidden
from tests.engines import EngineUnderTest, check_copy, look, write
from tests.kafka_data import Record, make_topic
from tests.patience import wait_until

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000)
NewEngine = Callable[..., EngineUnderTest]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start a broker that is source and destination. Everything is allowed that no ACL denies."""
    folder = tmp_path_factory.mktemp("isolation")
    cluster = KafkaCluster(
        "kafka", folder, [NodePorts.free()], jvm=Jvm(heap_mib=320, quick_start=True), properties=PERMISSIVE
    )
    cluster.start()
    yield cluster
    cluster.kill()
    cluster.wipe()


@pytest.fixture
def engine(broker: KafkaCluster, new_engine: NewEngine) -> EngineUnderTest:
    return new_engine(broker.address, broker.address)


def make_pair(engine: EngineUnderTest, *topics: str) -> None:
    for topic in topics:
        make_topic(engine.source, topic)
        make_topic(engine.source, f"copy.{topic}")


def records(count: int) -> list[Record]:
    return [Record(0, b"k", b"value %d" % number, (), NOW + number) for number in range(count)]


@pytest.mark.parametrize("side", ["source", "destination"])
def test_a_topic_that_is_forbidden_pauses_and_resumes_when_it_is_allowed(
    engine: EngineUnderTest, side: str
) -> None:
    bad, good = f"forbidden-{side}", f"allowed-{side}"
    make_pair(engine, bad, good)
    for topic in (bad, good):
        write(engine.source, topic, records(20))
    read = side == "source"
    topic, operation = (bad, AclOperation.READ) if read else (f"copy.{bad}", AclOperation.WRITE)
    with Forbidden(engine.source, topic, operation):
        for name in (bad, good):
            engine.start(name, destination=f"copy.{name}")
        engine.run_until(engine.paused, "the forbidden lane pauses")
        engine.run_to(good, [20])
        (pause,) = engine.paused()
        assert pause.key.partition.topic == bad
        assert "TOPIC_AUTHORIZATION_FAILED" in pause.reason
        assert bad in pause.reason
        write(engine.source, good, records(5))
        engine.run_to(good, [25])
        assert engine.lane(bad).checkpoint == 0
    engine.run_to(bad, [20])
    assert check_copy(engine, bad, destination=f"copy.{bad}") == 20
    assert [event.key.partition.topic for event in engine.resumed()] == [bad]


def segment(broker: KafkaCluster, topic: str) -> Path:
    folder = broker.nodes[0].folder / "data"
    (found,) = wait_until(lambda: list(folder.glob(f"{topic}-0/*.log")), f"a log of {topic}")
    return found


def test_a_batch_that_is_damaged_at_the_source_is_never_copied(
    broker: KafkaCluster, engine: EngineUnderTest
) -> None:
    make_pair(engine, "damaged", "undamaged")
    write(engine.source, "damaged", records(30), per_batch=10)
    write(engine.source, "undamaged", records(30))
    log = segment(broker, "damaged")
    with log.open("r+b") as file:
        content = file.read()
        place = content.index(b"value 15")
        file.seek(place)
        file.write(b"VALUE")
    for name in ("damaged", "undamaged"):
        engine.start(name, destination=f"copy.{name}")
    engine.run_until(engine.paused, "the damage is noticed")
    engine.run_to("undamaged", [30])
    engine.run_to("damaged", [10])
    assert engine.lane("damaged").checkpoint == 10
    assert "offset 10" in engine.paused()[0].reason
    assert [record.value for record in look(engine.destination, "copy.damaged")] == [
        record.value for record in records(10)
    ]
    with log.open("r+b") as file:
        file.seek(place)
        file.write(b"value")
    engine.run_to("damaged", [30])
    assert check_copy(engine, "damaged", destination="copy.damaged") == 30


def old_messages(magic: int, codec: int, first: int) -> bytes:
    """Return two messages from offset `first`, as stored by old brokers."""
    builder = LegacyRecordBatchBuilder(magic, codec, 10**6)
    builder.append(0, timestamp=NOW, key=None, value=b"format %d first" % magic)
    builder.append(1, timestamp=NOW, key=b"key", value=None)
    data = bytearray(builder.build())
    position, offset = 0, first + 1 if codec else first
    while position < len(data):
        data[position : position + 8] = offset.to_bytes(8, "big")
        position += 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        offset += 1
    return bytes(data)


def test_old_formats_that_a_broker_still_has_are_written_in_the_present_one(
    broker: KafkaCluster, new_engine: NewEngine
) -> None:
    make_topic(broker.address, "old", 1)
    make_topic(broker.address, "copy.old", 1)
    log = segment(broker, "old")
    broker.stop()
    log.write_bytes(old_messages(0, 0, 0) + old_messages(1, 0, 2) + old_messages(1, 1, 4))
    for index in log.parent.glob("*index"):
        index.unlink()
    for clean in log.parent.parent.glob(".kafka_cleanshutdown"):
        clean.unlink()
    broker.start()
    write(broker.address, "old", records(5))
    engine = new_engine(broker.address, broker.address)
    engine.start("old", destination="copy.old")
    engine.run_to("old", [11])
    assert [(one.key, one.value) for one in look(broker.address, "copy.old")][:6] == [
        (None, b"format 0 first"),
        (b"key", None),
        (None, b"format 1 first"),
        (b"key", None),
        (None, b"format 1 first"),
        (b"key", None),
    ]
    expected = [  # format 0 has no timestamps, which the current format encodes as -1
        one._replace(timestamp=-1) if one.offset < 2 else one for one in look(broker.address, "old")
    ]

    assert check_copy(engine, "old", destination="copy.old", expected={0: expected}) == 11
