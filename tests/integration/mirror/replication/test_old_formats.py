"""Message formats 0 and 1 of a broker that still writes them, copied to a current broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from mirror.jobs.verify_job import VerifyJob, audit_copy
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPath, CopyPolicy
from mirror.model.topics import TopicSelection
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer
from tests.engines import DESTINATION, SOURCE, EngineUnderTest, look, write
from tests.kafka_data import Record, make_topic
from tests.patience import wait_until
from tests.servers import KafkaPair
from tests.shared_servers import BROKER_PROPERTIES

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000) - 3_600_000
FORMATS = {0: "0.9.0", 1: "0.10.2"}
"""Values of `message.format.version` by format."""


@pytest.fixture(scope="module")
def old_broker(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_server: ZooKeeperServer
) -> Iterator[KafkaCluster]:
    """Start a broker of Kafka 2.8.2, whose topics may have old formats."""
    cluster = KafkaCluster(
        "old",
        tmp_path_factory.mktemp("old"),
        [NodePorts.free()],
        jvm=Jvm(heap_mib=320, quick_start=True, jar_set="kafka-2.8"),
        properties=BROKER_PROPERTIES,
        zookeeper=f"{zookeeper_server.address}/old-{uuid4().hex[:8]}",
    )
    cluster.start()
    yield cluster
    cluster.kill()
    cluster.wipe()


@pytest.fixture
def engine(
    old_broker: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> EngineUnderTest:
    return new_engine(old_broker.address, kafka_pair.destination.address)


def fill(broker: KafkaCluster, topic: str, magic: int, codec: str, count: int = 300, **settings: str) -> None:
    """Create a topic of an old format, write records, and check the format of its log."""
    make_topic(broker.address, topic, 1, message_format_version=FORMATS[magic], **settings)
    records = [
        Record(
            0,
            (None, b"", b"key-%d" % (number % 50))[number % 3],
            (b"value-%d " % number * 30, None, b"")[number % 7 % 3],
            (),
            NOW + number * 7919 % 100_000,
        )
        for number in range(count)
    ]
    write(broker.address, topic, records, compression_type=codec, linger_ms=5)
    assert magic_of(segment(broker, topic)) == magic


def segment(broker: KafkaCluster, topic: str) -> Path:
    folder = broker.nodes[0].folder / "data"
    return wait_until(lambda: sorted(folder.glob(f"{topic}-0/*.log")), f"a log of {topic}")[0]


def magic_of(log: Path) -> int:
    with log.open("rb") as file:
        return file.read(17)[16]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", FORMATS)
def test_every_codec_by_every_path(
    old_broker: KafkaCluster, engine: EngineUnderTest, magic: int, codec: str
) -> None:
    topic = f"formats-{magic}-{codec}"
    fill(old_broker, topic, magic, codec)
    here = [record._replace(timestamp=-1) if magic == 0 else record for record in look(engine.source, topic)]
    for path in CopyPath:
        make_topic(engine.destination, f"{topic}-{path}")
        engine.start(topic, 1, f"{topic}-{path}", policy=CopyPolicy(path=path))
    for path in CopyPath:
        engine.run_to(topic, [300], destination=f"{topic}-{path}")
        there = look(engine.destination, f"{topic}-{path}")
        assert [one.content for one in there] == [one.content for one in here]


@pytest.mark.parametrize("magic", FORMATS)
def test_an_audit_finds_the_copy_equal(old_broker: KafkaCluster, engine: EngineUnderTest, magic: int) -> None:
    topic = f"formats-audit-{magic}"
    fill(old_broker, topic, magic, "gzip")
    make_topic(engine.destination, topic)
    engine.start(topic, group=topic)
    engine.run_to(topic, [300])
    engine.run_until_stored()
    job = VerifyJob(SOURCE, DESTINATION, TopicSelection(topic), state=topic)
    (verdict,) = engine.context.run(audit_copy(engine.context, job))
    assert (verdict.is_equal, verdict.comparison.found.counts.equal) == (True, 300)


@pytest.mark.parametrize("codec", ["none", "gzip"])
@pytest.mark.parametrize("magic", FORMATS)
def test_compaction_leaves_holes_in_old_formats(
    old_broker: KafkaCluster, engine: EngineUnderTest, magic: int, codec: str
) -> None:
    topic = f"formats-compacted-{magic}-{codec}"
    settings = {"cleanup_policy": "compact", "segment_bytes": "6000", "min_cleanable_dirty_ratio": "0.01"}
    make_topic(old_broker.address, topic, 1, message_format_version=FORMATS[magic], **settings)
    for round_ in range(12):
        records = [Record(0, b"%d" % (n % 40), b"%d-%d" % (round_, n), (), NOW) for n in range(60)]
        write(old_broker.address, topic, records, compression_type=codec, linger_ms=50)
    wait_until(
        lambda: len(look(engine.source, topic)) < 500,
        "the cleaner has compacted the log",
        interval_seconds=0.5,
    )
    make_topic(engine.destination, topic)
    engine.start(topic)
    lane = engine.lane(topic)
    engine.run_until(lambda: 0 <= lane.read.high_watermark == lane.checkpoint > 0, "the end is reached")
    ledger = lane.progress.ledger
    assert (ledger.next, ledger.is_balanced) == (720, True)
    there = {record.key: record.value for record in look(engine.destination, topic)}
    assert there == {record.key: record.value for record in look(engine.source, topic)}


def test_a_start_by_time_in_format_0_pauses_with_the_reason(
    old_broker: KafkaCluster, engine: EngineUnderTest
) -> None:
    fill(old_broker, "formats-time", 0, "none", 10)
    make_topic(engine.destination, "formats-time")
    engine.start("formats-time", start=StartPosition.TIMESTAMP, start_ms=NOW)
    engine.run_until(engine.paused, "the lane pauses")
    assert "no timestamps" in engine.paused()[0].reason


def test_a_start_by_time_in_format_1(old_broker: KafkaCluster, engine: EngineUnderTest) -> None:
    make_topic(old_broker.address, "formats-since", message_format_version=FORMATS[1])
    for number in range(20):
        write(engine.source, "formats-since", [Record(0, None, b"%d" % number, (), NOW + number)])
    make_topic(engine.destination, "formats-since")
    engine.start("formats-since", start=StartPosition.TIMESTAMP, start_ms=NOW + 12)
    engine.run_to("formats-since", [20])
    assert [int(one.value or b"") for one in look(engine.destination, "formats-since")] == list(range(12, 20))
