"""The job from Kafka to Kafka: three clusters with both topics, malformed and repeated values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from mirror.adapters.system_clock import SystemClock
from mirror.settings import KafkaCluster
from pinot.tables import PARTITION_METRICS, UNKNOWN
from pmp.job.job_metrics import OBSERVATION
from pmp.job.streams import Configuration, start_stream, streams
from pmp.samples.sample import MOST_BYTES, Sample, encode
from pmp.settings import JobSettings, PmpSettings, SampledCluster
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.metrics_data import a_sample, fresh_name, rows_in, write_samples, write_values
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

START_MS = 1_795_000_000_000


class World:
    """Names of one test on the shared brokers."""

    def __init__(self, kafka: KafkaPair, folder: Path, *names: str, partitions: int = 4) -> None:
        self.kafka = kafka
        self.retention_days = 3650
        self.prefix = fresh_name("job")
        self.brokers = {
            name: kafka.source if number % 3 < 2 else kafka.destination for number, name in enumerate(names)
        }
        self.clusters = {
            name: KafkaCluster(bootstrap_servers=broker.address) for name, broker in self.brokers.items()
        }
        self.clusters["out"] = KafkaCluster(bootstrap_servers=kafka.destination.address)
        self.settings = PmpSettings(
            output_cluster="out",
            topic=f"{self.prefix}-metrics",
            dead_letter_topic=f"{self.prefix}-dead",
            clusters={name: self._sampled(name) for name in names},
            job=JobSettings(
                checkpoint_folder=str(folder), trigger_interval_seconds=0, samples_per_trigger=1000
            ),
        )
        for topic in (self.settings.topic, self.settings.dead_letter_topic):
            make_topic(kafka.destination.address, topic, 2)
        for name in names:
            for topic in (self.samples_topic(name), self.execution_topic(name)):
                make_topic(self.brokers[name].address, topic, partitions)

    def samples_topic(self, name: str) -> str:
        return f"__{self.prefix}-{name}"

    def execution_topic(self, name: str) -> str:
        return f"__{self.prefix}-{name}-execution"

    def _sampled(self, name: str) -> SampledCluster:
        return SampledCluster(
            datacenter=f"dc-{name}",
            samples_topic=self.samples_topic(name),
            execution_topic=self.execution_topic(name),
            exclude="excluded-.*",
        )

    def write(self, name: str, samples: list[Sample], partition: int = 0, execution: bool = False) -> None:
        topic = self.execution_topic(name) if execution else self.samples_topic(name)
        write_samples(self.brokers[name].address, topic, samples, partition)

    def start(self, spark: SparkSession) -> list[StreamingQuery]:
        found = streams(Configuration(self.settings, self.clusters, self.retention_days))
        return [start_stream(spark, self.settings, stream) for stream in found.values()]

    def run(self, spark: SparkSession) -> None:
        """Read everything up to the current ends, then stop."""
        queries = self.start(spark)
        try:
            for query in queries:
                query.processAllAvailable()
        finally:
            for query in queries:
                query.stop()

    def rows(self) -> list[dict[str, Any]]:
        return rows_in(self.kafka.destination.address, self.settings.topic, PARTITION_METRICS)


def test_samples_of_three_clusters_and_both_topics_become_one_topic(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    names = ("east", "west", "north")
    world = World(kafka_pair, tmp_path, *names)
    expected: dict[tuple[str, str, int, int], Sample] = {}
    for number, name in enumerate(names):
        for round_ in range(5):
            samples = [
                a_sample(
                    f"topic.{partition % 2}",
                    partition,
                    START_MS + round_ * 120_000,
                    size_bytes=1e6 + round_ * (partition + 1) * 120_000.0 * (number + 1),
                    bytes_in_per_second=1000.0 + partition,
                )
                for partition in range(6)
            ]
            world.write(name, samples, round_ % 4, execution=round_ == 3)
            expected |= {(name, one.topic, one.partition, one.time_ms): one for one in samples}
    world.run(spark)
    rows = world.rows()
    assert len(rows) == len(expected)
    for row in rows:
        sample = expected.pop((row["cluster"], row["topic"], row["kafka_partition"], row["time_ms"]))
        round_ = (row["time_ms"] - START_MS) // 120_000
        assert row["datacenter"] == f"dc-{row['cluster']}"
        assert row["source"] == ("cruise-control-execution" if round_ == 3 else "cruise-control")
        assert row["bytes_in_per_second"] == sample.bytes_in_per_second
        assert row["bytes_out_per_second"] == sample.bytes_out_per_second
        assert row["messages_in_per_second"] == sample.messages_in_per_second
        assert row["size_bytes"] == sample.size_bytes
        slope = 1000.0 * (row["kafka_partition"] + 1) * (names.index(row["cluster"]) + 1)
        assert row["growth_ms"] == (120_000 if round_ else 0)
        assert math.isclose(row["inflow_bytes_per_second"], slope if round_ else sample.bytes_in_per_second)
    assert not expected


def test_malformed_values_go_to_the_dead_letters_and_stop_nothing(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east", partitions=1)
    good = encode(a_sample())
    malformed: dict[bytes | None, str] = {
        b"": "short",
        good[:88]: "short",
        b"\x02" + good[1:]: "version",
        good + b"\xff": "utf8",
        bytes(256): "topic",
        good + b"\x00": "topic",
        encode(a_sample("*")): "topic",
        encode(a_sample("..")): "topic",
        encode(a_sample("orders of ü")): "topic",
        encode(a_sample(partition=2**31 - 1)): "partition",
        encode(a_sample(partition=-1)): "partition",
        encode(a_sample(bytes_in_per_second=math.nan)): "number",
        encode(a_sample(size_bytes=math.inf)): "number",
        encode(a_sample(bytes_out_per_second=-1.0)): "number",
        encode(a_sample(time_ms=-1)): "time",
        encode(a_sample(time_ms=4_000_000_000_000)): "time",
        None: "short",
    }
    values = [value for bad in malformed for value in (bad, None)][:-1]
    write_values(kafka_pair.source.address, world.samples_topic("east"), [*values, good])
    world.run(spark)
    letters = read_all(kafka_pair.destination.address, world.settings.dead_letter_topic)
    found = {}
    for letter in letters:
        headers = dict(letter.headers)
        offset = int(headers["headrace.offset"] or b"")
        assert headers["headrace.topic"] == world.samples_topic("east").encode()
        assert headers["headrace.cluster"] == b"east"
        assert headers["headrace.partition"] == b"0"
        assert headers["headrace.explanation"]
        assert letter.key == f"east/{world.samples_topic('east')}/0/{offset}".encode()
        found[offset] = (letter.value, headers["headrace.reason"])
    assert found == {offset: (value, malformed[value].encode()) for offset, value in enumerate(values)}
    assert [row["topic"] for row in world.rows()] == ["orders"]


def test_a_value_as_large_as_its_topic_allows_is_cut_and_holds_up_nobody(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    """Including headers it would exceed the record limit of the dead-letter topic at every attempt."""
    world = World(kafka_pair, tmp_path, "east", partitions=1)
    good = encode(a_sample())
    large = good + b"x" * (1_048_450 - len(good))
    topic = world.samples_topic("east")
    records = [Record(0, None, value, (), START_MS) for value in (large, good)]
    produce(kafka_pair.source.address, topic, records, **{"message.max.bytes": 1_048_588})
    world.run(spark)
    (letter,) = read_all(kafka_pair.destination.address, world.settings.dead_letter_topic)
    headers = dict(letter.headers)
    assert (headers["headrace.reason"], headers["headrace.bytes"]) == (b"topic", b"1048450")
    assert letter.value == large[:MOST_BYTES]
    assert [row["topic"] for row in world.rows()] == ["orders"]


def test_version_0_has_no_message_rate_and_topics_are_filtered(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    topics = ["orders", "__consumer_offsets", "excluded-1", "excluded", "with.dots"]
    samples = [a_sample(topic) for topic in topics]
    write_samples(kafka_pair.source.address, world.samples_topic("east"), samples, version=0)
    world.run(spark)
    rows = {row["topic"]: row for row in world.rows()}
    assert set(rows) == {"orders", "excluded", "with.dots"}
    assert all(row["messages_in_per_second"] is None for row in rows.values())


def test_what_a_sample_does_not_know_is_unknown_in_its_row(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    world.write("east", [a_sample(bytes_out_per_second=None, messages_in_per_second=None)])
    world.run(spark)
    (row,) = world.rows()
    assert row["messages_in_per_second"] is None
    assert row["bytes_out_per_second"] == UNKNOWN


def test_a_sample_on_both_topics_counts_once_and_a_late_one_is_kept(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    first, second = a_sample(time_ms=START_MS), a_sample(time_ms=START_MS + 60_000, size_bytes=1_060_000.0)
    late = a_sample(time_ms=START_MS - 60_000)
    world.write("east", [first, second])
    world.write("east", [second], execution=True)
    world.run(spark)
    world.write("east", [second, late], partition=1, execution=True)
    world.run(spark)
    rows = sorted((row["time_ms"], row["growth_bytes"]) for row in world.rows())
    assert rows == [(late.time_ms, 0.0), (first.time_ms, 0.0), (second.time_ms, 60_000.0)]


def test_growth_is_known_across_a_restart_and_a_batch_that_is_repeated(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    world.write("east", [a_sample(time_ms=START_MS, size_bytes=0.0)])
    world.run(spark)
    world.write("east", [a_sample(time_ms=START_MS + 1000, size_bytes=500.0)])
    world.run(spark)
    commits = tmp_path / "samples" / "east" / "commits"
    newest = max((path for path in commits.iterdir() if path.name.isdecimal()), key=lambda p: int(p.name))
    for path in (newest, commits / f".{newest.name}.crc"):
        path.unlink(missing_ok=True)  # as if the job had been killed between write and commit
    world.run(spark)
    rows = sorted((row["time_ms"], row["growth_bytes"], row["growth_ms"]) for row in world.rows())
    repeated = (START_MS + 1000, 500.0, 1000)
    assert rows == [(START_MS, 0.0, 0), repeated, repeated]


def test_many_rounds_on_one_partition_are_read_in_order_of_their_times(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    rounds = [
        a_sample(time_ms=START_MS + r * 1000, size_bytes=r * 100.0, partition=p)
        for r in range(60)
        for p in range(40)
    ]
    world.write("east", rounds[1200:])
    world.write("east", rounds[:1200], partition=1)
    world.run(spark)
    rows = world.rows()
    assert len(rows) == len(rounds)
    assert all(row["growth_bytes"] * 10 == row["growth_ms"] for row in rows)
    assert sum(row["growth_ms"] == 0 for row in rows) <= 3 * 40  # the first sample of a partition in a batch


def test_samples_that_are_older_than_their_table_keeps_are_counted_and_left_out(
    spark: SparkSession, kafka_pair: KafkaPair, tmp_path: Path
) -> None:
    world = World(kafka_pair, tmp_path, "east")
    world.retention_days = 3
    now_ms = SystemClock().now_ms()
    days = 24 * 3_600_000
    fresh = [a_sample(partition=p, time_ms=now_ms - 2 * days) for p in range(3)]
    old = [a_sample(partition=p, time_ms=now_ms - 4 * days) for p in range(7)]
    world.write("east", [*old, *fresh])
    (query,) = world.start(spark)
    try:
        query.processAllAvailable()
        counted = [one.observedMetrics[OBSERVATION] for one in query.recentProgress if one.observedMetrics]
    finally:
        query.stop()
    assert sum(row["too_old"] or 0 for row in counted) == 7
    assert sum(row["good"] or 0 for row in counted) == 3
    assert sorted((row["kafka_partition"], row["time_ms"]) for row in world.rows()) == [
        (one.partition, one.time_ms) for one in fresh
    ]
    assert read_all(kafka_pair.destination.address, world.settings.dead_letter_topic) == []
