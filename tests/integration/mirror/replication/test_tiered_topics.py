"""Topics whose older segments are in remote storage (KIP-405), of Kafka's own tests: a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from mirror.jobs.verify_job import VerifyJob, audit_copy
from mirror.model.datastreams.datastream import StartPosition
from mirror.model.datastreams.policy import CopyPath, CopyPolicy
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.protocol.control.offsets import EARLIEST, EARLIEST_LOCAL
from stack.jars import jar_sets
from stack.jars.coordinates import TIERED_KAFKA
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.engines import DESTINATION, SOURCE, EngineUnderTest, check_copy, look, write
from tests.kafka_data import Record, make_topic
from tests.patience import wait_until
from tests.servers import KafkaPair
from tests.shared_servers import BROKER_PROPERTIES

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW = int(time.time() * 1000) - 3_600_000
SEGMENT = 2**20
RECORDS = 60
VALUE_BYTES = 100_000
"""Size of a value: a partition has 6 MB, of which the broker's disk keeps the last 2 MB."""
PARTITIONS = 4
TOPIC = "tiered"


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaCluster]:
    """Start a broker that moves segments to remote storage, with one topic."""
    folder = tmp_path_factory.mktemp("tiered")
    (jar,) = jar_sets.jar_files(TIERED_KAFKA)
    properties = {
        **BROKER_PROPERTIES,
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "remote.log.storage.manager.class.path": jar,
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": folder / "remote",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": 1,
        "rlmm.config.remote.log.metadata.topic.num.partitions": 1,
        "remote.log.manager.task.interval.ms": 200,
        "log.retention.check.interval.ms": 200,
        "log.initial.task.delay.ms": 200,
    }
    jvm = Jvm(heap_mib=320, quick_start=True)
    cluster = KafkaCluster("tiered", folder, [NodePorts.free()], jvm=jvm, properties=properties)
    cluster.start()
    _fill(cluster)
    yield cluster
    cluster.kill()
    cluster.wipe()


def _fill(cluster: KafkaCluster) -> None:
    settings = {
        "remote_storage_enable": "true",
        "segment_bytes": str(SEGMENT),
        "local_retention_ms": "-1",
        "local_retention_bytes": str(2 * SEGMENT),
        "file_delete_delay_ms": "100",
    }
    make_topic(cluster.address, TOPIC, PARTITIONS, **settings)
    for partition in range(PARTITIONS):
        records = [
            Record(partition, b"%d" % number, bytes([number]) * VALUE_BYTES, (), NOW + number)
            for number in range(RECORDS)
        ]
        write(cluster.address, TOPIC, records)


@pytest.fixture
def engine(
    tiered: KafkaCluster, kafka_pair: KafkaPair, new_engine: Callable[..., EngineUnderTest]
) -> EngineUnderTest:
    """Return an engine that reads the topic once only the last segments are on the broker's disk."""
    engine = new_engine(tiered.address, kafka_pair.destination.address)
    wait_until(lambda: min(offsets(engine, EARLIEST_LOCAL)) > RECORDS // 2, "segments move away")
    assert offsets(engine, EARLIEST) == [0] * PARTITIONS
    return engine


def offsets(engine: EngineUnderTest, when: int) -> list[int]:
    """Return the offsets of all partitions for a special timestamp."""
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    answers = engine.context.run(engine.context.cluster(SOURCE).offsets(dict.fromkeys(places, when)))
    return [answers[place].offset for place in places]


def check_from(engine: EngineUnderTest, copy: str, partition: int, first: int) -> None:
    """Check that a copy has the records from a source offset on."""
    here = look(engine.source, TOPIC, partition)[first:]
    there = look(engine.destination, copy, partition)
    assert [one.content for one in there] == [one.content for one in here]


@pytest.mark.parametrize("path", CopyPath)
def test_everything_is_copied_from_the_start_of_the_log(engine: EngineUnderTest, path: CopyPath) -> None:
    copy = f"{TOPIC}-{path}"
    make_topic(engine.destination, copy, PARTITIONS)
    engine.start(TOPIC, PARTITIONS, copy, policy=CopyPolicy(path=path))
    engine.run_to(TOPIC, [RECORDS] * PARTITIONS, copy)
    assert check_copy(engine, TOPIC, PARTITIONS, copy) == PARTITIONS * RECORDS
    assert not engine.paused()


def test_a_copy_may_begin_with_what_the_brokers_have_on_their_own_disks(engine: EngineUnderTest) -> None:
    copy = f"{TOPIC}-local"
    make_topic(engine.destination, copy, PARTITIONS)
    engine.start(TOPIC, PARTITIONS, copy, start=StartPosition.EARLIEST_LOCAL)
    engine.run_to(TOPIC, [RECORDS] * PARTITIONS, copy)
    for number in range(PARTITIONS):
        first = engine.lane(TOPIC, number, copy).progress.ledger.start
        assert first > RECORDS // 2
        check_from(engine, copy, number, first)


def test_a_copy_may_begin_at_a_time_of_which_only_remote_storage_has_records(engine: EngineUnderTest) -> None:
    copy = f"{TOPIC}-since"
    make_topic(engine.destination, copy, PARTITIONS)
    engine.start(TOPIC, PARTITIONS, copy, start=StartPosition.TIMESTAMP, start_ms=NOW + 3)
    engine.run_to(TOPIC, [RECORDS] * PARTITIONS, copy)
    for number in range(PARTITIONS):
        stamps = [record.timestamp for record in look(engine.source, TOPIC, number)]
        first = next(offset for offset, stamp in enumerate(stamps) if stamp >= NOW + 3)
        assert engine.lane(TOPIC, number, copy).progress.ledger.start == first
        check_from(engine, copy, number, first)


def test_an_audit_reads_remote_segments(engine: EngineUnderTest) -> None:
    make_topic(engine.destination, TOPIC, PARTITIONS)
    engine.start(TOPIC, PARTITIONS, group=TOPIC)
    engine.run_to(TOPIC, [RECORDS] * PARTITIONS)
    engine.run_until_stored()
    job = VerifyJob(SOURCE, DESTINATION, TopicSelection(TOPIC), state=TOPIC)
    verdicts = engine.context.run(audit_copy(engine.context, job))
    assert [(one.is_equal, one.source_range) for one in verdicts] == [(True, (0, RECORDS))] * PARTITIONS
