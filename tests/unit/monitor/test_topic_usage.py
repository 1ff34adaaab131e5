"""Daily sums of a metrics topic on a fake broker."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import fastavro
import pytest

from mirror.adapters.settings import KafkaCluster
from mirror.errors import AnswerTooLarge, TopicMissing, Unreachable
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from monitor.adapters.topic_usage import TopicUsage
from monitor.usage_bill import DAY_MS
from pinot.time_range import TimeRange
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.topics import NOBODY

DAY = 20_000
NOW_MS = DAY * DAY_MS + 5_000_000
ROW = MirrorMetric(
    NOW_MS, 1_000, "i", "t-0", "shop", "east", "orders", 0, 10, 1_000, 2, 2, 0, 0, (0,) * LATENCY_BUCKETS
)
SCHEMA = fastavro.parse_schema(avro_schema(MirrorMetric))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with ExitStack() as stack:
        made = stack.enter_context(running(FakeCluster("metrics", 1)))
        with made.lock:
            made.create_topic("m", 2)
        yield made


def usage(cluster: FakeCluster, most_rows: int = 1_000) -> TopicUsage:
    return TopicUsage(KafkaCluster(bootstrap_servers=cluster.address), "m", most_rows)


def write(cluster: FakeCluster, *rows: MirrorMetric, number: int = 0) -> None:
    contents: list[Content] = []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, SCHEMA, row_of(row))
        contents.append((row.time_ms, b"key", buffer.getvalue(), []))
    with cluster.lock:
        cluster.write("m", contents, number)


def days(first: int, last: int = DAY) -> TimeRange:
    return TimeRange(first * DAY_MS, last * DAY_MS + DAY_MS)


def test_rows_are_summed_by_day_and_topic(cluster: FakeCluster) -> None:
    earlier = replace(ROW, time_ms=NOW_MS - DAY_MS)
    write(cluster, earlier, ROW, replace(ROW, cpu_ms=500.0))
    write(
        cluster,
        replace(ROW, topic="users"),
        replace(ROW, records_copied=0, bytes_copied=0, topic="idle"),
        number=1,
    )
    found = usage(cluster).sums(days(DAY - 1))
    assert sorted((one.day_ms // DAY_MS, one.topic, one.records, one.bytes, one.cpu_ms) for one in found) == [
        (DAY - 1, "orders", 10, 1_000, 0.0),
        (DAY, "orders", 20, 2_000, 500.0),
        (DAY, "users", 10, 1_000, 0.0),
    ]


def test_new_rows_are_added_and_no_row_twice(cluster: FakeCluster) -> None:
    read = usage(cluster)
    assert read.sums(days(DAY)) == []
    write(cluster, ROW)
    assert [one.records for one in read.sums(days(DAY))] == [10]
    write(cluster, ROW, number=1)
    for _ in range(3):
        assert [one.records for one in read.sums(days(DAY))] == [20]


def test_an_earlier_day_is_read_again(cluster: FakeCluster) -> None:
    write(cluster, replace(ROW, time_ms=NOW_MS - 3 * DAY_MS), ROW)
    read = usage(cluster)
    assert len(read.sums(days(DAY))) == 1
    assert len(read.sums(days(DAY - 3))) == 2
    assert len(read.sums(days(DAY))) == 1


def test_damaged_rows_are_skipped(cluster: FakeCluster) -> None:
    write(cluster, replace(ROW, bytes_copied=-5), ROW)
    with cluster.lock:
        cluster.write("m", [(NOW_MS, None, b"\xff\x00", []), (NOW_MS, None, None, [])])
    assert [one.records for one in usage(cluster).sums(days(DAY))] == [10]


def test_earlier_days_are_dropped_before_an_answer_is_too_large(cluster: FakeCluster) -> None:
    read = TopicUsage(KafkaCluster(bootstrap_servers=cluster.address), "m", most_sums=2)
    write(cluster, replace(ROW, time_ms=NOW_MS - DAY_MS), ROW)
    assert len(read.sums(days(DAY - 1))) == 2
    write(cluster, replace(ROW, topic="users"))
    assert len(read.sums(days(DAY))) == 2
    with pytest.raises(AnswerTooLarge):
        read.sums(days(DAY - 1))
    assert len(read.sums(days(DAY))) == 2


def test_sums_without_an_offline_partition_are_refused(cluster: FakeCluster) -> None:
    read = TopicUsage(KafkaCluster(bootstrap_servers=cluster.address), "m", patience_seconds=1.0)
    write(cluster, ROW)
    write(cluster, ROW, number=1)
    with cluster.lock:
        cluster.move_leader("m", 1, NOBODY)
        cluster.server.changed()
    with pytest.raises(Unreachable, match=r"offsets of m-1 of .* has no leader: start a broker"):
        read.sums(days(DAY))
    with cluster.lock:
        cluster.move_leader("m", 1, 1)
        cluster.server.changed()
    assert [one.records for one in read.sums(days(DAY))] == [20]


def test_a_topic_that_is_created_again_is_read_from_its_start(cluster: FakeCluster) -> None:
    read = usage(cluster)
    write(cluster, ROW, ROW)
    assert [one.records for one in read.sums(days(DAY))] == [20]
    with cluster.lock:
        cluster.delete_topic("m")
        cluster.create_topic("m", 2)
    write(cluster, ROW)
    assert [one.records for one in read.sums(days(DAY))] == [10]
    with cluster.lock:
        cluster.delete_topic("m")
        cluster.create_topic("m", 2)
    write(cluster, *[replace(ROW, records_copied=7)] * 3)  # more rows than the former topic had
    assert [one.records for one in read.sums(days(DAY))] == [21]


def test_rows_that_expired_before_they_were_read_are_skipped(cluster: FakeCluster) -> None:
    read = usage(cluster)
    write(cluster, ROW)
    assert [one.records for one in read.sums(days(DAY))] == [10]
    write(cluster, ROW, ROW, ROW)
    with cluster.lock:
        cluster.log("m").delete_before(3)
    assert [one.records for one in read.sums(days(DAY))] == [20]


def test_too_many_rows_and_a_missing_topic_are_errors(cluster: FakeCluster) -> None:
    write(cluster, *[ROW] * 11)
    with pytest.raises(AnswerTooLarge):
        usage(cluster, 10).sums(days(DAY))
    settings = KafkaCluster(bootstrap_servers=cluster.address)
    with pytest.raises(TopicMissing):
        TopicUsage(settings, "missing").sums(days(DAY))
