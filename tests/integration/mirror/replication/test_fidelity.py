"""Copies equal their sources: every codec, every shape of record, every kind of source topic."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer, TopicPartition

from mirror.lane.ledger import OffsetClass
from mirror.model.datastreams.policy import CopyPath, CopyPolicy, Isolation
from tests.engines import EngineUnderTest, check_copy, look, write
from tests.kafka_data import Record, admin_client, make_topic
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]

NOW = int(time.time() * 1000) - 3_600_000


def shapes(count: int, partitions: int) -> list[Record]:
    """Return records with nulls, empty values, tombstones, all kinds of headers, unordered timestamps."""
    return [
        Record(
            number % partitions,
            (None, b"", b"key-%d" % number)[number % 3],
            (b"value-%d " % number * 30, None, b"")[number % 7 % 3],
            ((), (("h", b"x"), ("h", None), ("", b"")), (("trace", b"%d" % number),))[number % 5 % 3],
            NOW + (number * 7919) % 100_000,
        )
        for number in range(count)
    ]


def make_pair(engine: EngineUnderTest, topic: str, partitions: int = 1, **settings: str) -> None:
    make_topic(engine.source, topic, partitions, **settings)
    make_topic(engine.destination, topic, partitions)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_by_every_path(engine: EngineUnderTest, codec: str) -> None:
    topic = f"fidelity-{codec}"
    make_topic(engine.source, topic, 3)
    write(engine.source, topic, shapes(3_000, 3), compression_type=codec, linger_ms=2)
    for path in CopyPath:
        make_topic(engine.destination, f"{topic}-{path}", 3)
        engine.start(topic, 3, f"{topic}-{path}", policy=CopyPolicy(path=path))
    for path in CopyPath:
        engine.run_to(topic, [1_000] * 3, destination=f"{topic}-{path}")
        assert check_copy(engine, topic, 3, f"{topic}-{path}") == 3_000
    assert all(len(lane.progress.offset_map) == 1 for lane in engine.lanes.values())


def test_small_batches_are_merged_when_they_have_piled_up(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-merged")
    write(engine.source, "fidelity-merged", shapes(300, 1), per_batch=2)
    engine.start("fidelity-merged")
    engine.run_to("fidelity-merged", [300])
    assert check_copy(engine, "fidelity-merged") == 300
    counters = engine.lane("fidelity-merged").observed.counters
    assert counters.source_batches >= 150
    assert counters.batches <= 3


def test_append_times_become_the_records_own(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-append", message_timestamp_type="LogAppendTime")
    write(engine.source, "fidelity-append", shapes(500, 1), compression_type="zstd")
    engine.start("fidelity-append")
    engine.run_to("fidelity-append", [500])
    assert check_copy(engine, "fidelity-append") == 500
    assert all(
        record.timestamp > NOW + 100_000 or record.timestamp < NOW
        for record in look(engine.destination, "fidelity-append")
    )


@pytest.mark.deep
def test_a_destination_that_stamps_append_times_takes_batches_as_they_are(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "fidelity-stamped", message_timestamp_type="LogAppendTime")
    make_topic(engine.destination, "fidelity-stamped", message_timestamp_type="LogAppendTime")
    write(engine.source, "fidelity-stamped", shapes(200, 1), linger_ms=50)
    engine.start("fidelity-stamped", policy=CopyPolicy(path=CopyPath.PASSTHROUGH))
    engine.run_to("fidelity-stamped", [200])
    here, there = look(engine.source, "fidelity-stamped"), look(engine.destination, "fidelity-stamped")
    assert [(r.key, r.value, r.headers) for r in here] == [(r.key, r.value, r.headers) for r in there]
    assert not engine.paused()


@pytest.mark.deep
def test_a_batch_of_eight_megabytes(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "fidelity-large", max_message_bytes="9000000")
    make_topic(engine.destination, "fidelity-large", max_message_bytes="9000000")
    record = Record(0, b"k", b"x" * 8_388_608, (), NOW)
    write(engine.source, "fidelity-large", [record, record], message_max_bytes=9_000_000)
    engine.start("fidelity-large")
    engine.run_to("fidelity-large", [2])
    here, there = look(engine.source, "fidelity-large"), look(engine.destination, "fidelity-large")
    assert [one.content for one in here] == [one.content for one in there]


@pytest.mark.deep
def test_large_batches_are_split_for_a_destination_that_takes_less(engine: EngineUnderTest) -> None:
    make_topic(engine.source, "fidelity-split", max_message_bytes="9000000")
    make_topic(engine.destination, "fidelity-split", max_message_bytes="100000")
    records = [Record(0, b"%d" % number, b"y" * 900, (), NOW + number) for number in range(3_000)]
    write(
        engine.source,
        "fidelity-split",
        records,
        batch_size=3_000_000,
        linger_ms=500,
        message_max_bytes=9_000_000,
    )
    engine.start("fidelity-split")
    engine.run_to("fidelity-split", [3_000])
    assert check_copy(engine, "fidelity-split") == 3_000


def transactional(address: str, name: str) -> Producer:
    patience = {"transaction.timeout.ms": int(PATIENCE_SECONDS * 1000)}
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "linger.ms": 0, **patience})
    producer.init_transactions(PATIENCE_SECONDS)
    return producer


def test_aborted_and_control_records_never_arrive(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-transactions")
    writers = [transactional(engine.source, f"fidelity-{number}") for number in range(3)]
    for round_ in range(12):
        for number, writer in enumerate(writers):
            writer.begin_transaction()
            for step in range(round_ + number + 1):
                writer.produce("fidelity-transactions", b"%d-%d-%d" % (number, round_, step), b"k")
            writer.flush(PATIENCE_SECONDS)
        for number, writer in enumerate(writers):
            (writer.commit_transaction if (round_ + number) % 2 else writer.abort_transaction)(20)
    write(engine.source, "fidelity-transactions", shapes(50, 1))
    engine.start("fidelity-transactions")
    lane = engine.lane("fidelity-transactions")
    engine.run_until(lambda: 0 <= lane.read.high_watermark == lane.checkpoint > 0, "the end is reached")
    visible = check_copy(engine, "fidelity-transactions")
    assert lane.progress.ledger.total(OffsetClass.CONTROL) == 36
    assert lane.progress.ledger.total(OffsetClass.ABORTED) > 0
    assert lane.progress.ledger.total(OffsetClass.MIRRORED) == visible
    assert lane.progress.ledger.next == lane.read.high_watermark


def test_an_open_transaction_holds_the_lane_at_the_last_stable_offset(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-open")
    write(engine.source, "fidelity-open", shapes(100, 1))
    writer = transactional(engine.source, "fidelity-open")
    writer.begin_transaction()
    writer.produce("fidelity-open", b"undecided")
    writer.flush(PATIENCE_SECONDS)
    write(engine.source, "fidelity-open", shapes(40, 1))
    engine.start("fidelity-open")
    lane = engine.lane("fidelity-open")
    engine.run_until(
        lambda: lane.checkpoint == 100 and lane.read.high_watermark == 141,
        "the lane waits at the transaction",
    )
    engine.run_for(0.7)
    assert (lane.checkpoint, lane.read.stable_offset) == (100, 100)
    writer.commit_transaction(PATIENCE_SECONDS)
    engine.run_to("fidelity-open", [142])
    assert check_copy(engine, "fidelity-open") == 141


@pytest.mark.deep
def test_a_transaction_that_hangs_is_reported_until_it_ends(
    new_engine: Callable[..., EngineUnderTest], kafka_pair: KafkaPair
) -> None:
    engine = new_engine(
        kafka_pair.source.address,
        kafka_pair.destination.address,
        options={"hanging_transaction_seconds": 0.5},
    )
    make_pair(engine, "fidelity-hanging")
    write(engine.source, "fidelity-hanging", shapes(5, 1))
    engine.start("fidelity-hanging")
    engine.run_to("fidelity-hanging", [5])
    # The first one completes the waiting fetch, so that the next response has records and the end together.
    write(engine.source, "fidelity-hanging", shapes(1, 1))
    write(engine.source, "fidelity-hanging", shapes(4, 1))
    writer = transactional(engine.source, "fidelity-hanging")
    writer.begin_transaction()
    writer.produce("fidelity-hanging", b"undecided")
    writer.flush(PATIENCE_SECONDS)
    engine.run_until(engine.paused, "the transaction is reported")
    (report,) = engine.engine.reports()
    assert re.search(r"\b10 of 11\b.*\bproducer \d+\b.*\b10\b", report.reason)
    assert not engine.resumed()
    writer.commit_transaction(PATIENCE_SECONDS)
    engine.run_to("fidelity-hanging", [12])
    assert len(engine.resumed()) == 1
    assert engine.engine.reports()[0].reason == ""


@pytest.mark.deep
def test_read_uncommitted_copies_what_was_aborted_too(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-uncommitted")
    writer = transactional(engine.source, "fidelity-uncommitted")
    writer.begin_transaction()
    writer.produce("fidelity-uncommitted", b"aborted")
    writer.flush(PATIENCE_SECONDS)
    writer.abort_transaction(PATIENCE_SECONDS)
    engine.start("fidelity-uncommitted", policy=CopyPolicy(isolation=Isolation.READ_UNCOMMITTED))
    engine.run_to("fidelity-uncommitted", [2])
    assert [record.value for record in look(engine.destination, "fidelity-uncommitted")] == [b"aborted"]
    assert engine.lane("fidelity-uncommitted").progress.ledger.by_class()["control"] == 1


def test_compacted_topics_keep_their_holes_in_the_map(engine: EngineUnderTest) -> None:
    topic = "fidelity-compacted"
    settings = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100000000",
        "max.compaction.lag.ms": "300",
    }
    make_pair(engine, topic, 1, **{key.replace(".", "_"): value for key, value in settings.items()})
    for round_ in range(30):
        records = [
            Record(
                0,
                b"k%d" % ((round_ * 37 + number) % 60),
                None if number % 11 == 0 else b"v%d" % round_,
                (),
                NOW,
            )
            for number in range(40)
        ]
        write(engine.source, topic, records, compression_type="lz4", linger_ms=50)
    writer = transactional(engine.source, topic)
    writer.begin_transaction()
    writer.produce(topic, b"last", b"k-last")
    writer.commit_transaction(PATIENCE_SECONDS)
    wait_until(
        lambda: len(look(engine.source, topic)) < 400,
        "the cleaner has compacted the log",
        interval_seconds=0.5,
    )
    here = look(engine.source, topic)
    engine.start(topic)
    lane = engine.lane(topic)
    engine.run_until(lambda: 0 <= lane.read.high_watermark == lane.checkpoint > 0, "the end is reached")
    after = look(engine.source, topic)
    if after == here:
        check_copy(engine, topic)
    assert lane.progress.ledger.total(OffsetClass.COMPACTED) > 0
    assert lane.progress.ledger.is_balanced
    assert lane.progress.ledger.next == 1_202


def test_a_start_inside_of_a_batch_is_trimmed(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-trimmed")
    write(engine.source, "fidelity-trimmed", shapes(100, 1), linger_ms=200, compression_type="gzip")
    admin = admin_client(engine.source)
    admin.delete_records([TopicPartition("fidelity-trimmed", 0, 37)])[
        TopicPartition("fidelity-trimmed", 0)
    ].result(PATIENCE_SECONDS)
    engine.start("fidelity-trimmed")
    engine.run_to("fidelity-trimmed", [100])
    assert check_copy(engine, "fidelity-trimmed") == 63
    assert engine.lane("fidelity-trimmed").progress.ledger.start == 37


def test_a_lane_stops_by_itself_at_its_end(engine: EngineUnderTest) -> None:
    make_pair(engine, "fidelity-end")
    write(engine.source, "fidelity-end", shapes(100, 1), per_batch=25)
    engine.start("fidelity-end", end_offset=50)
    engine.run_until(engine.stopped, "the lane stops")
    assert engine.stopped()[0].next_offset == 50
    assert len(look(engine.destination, "fidelity-end")) == 50
