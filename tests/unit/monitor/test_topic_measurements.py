"""Measurements read from a metrics topic on a fake broker."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import fastavro
import pytest
from structlog.testing import capture_logs

from mirror.adapters.settings import KafkaCluster
from mirror.errors import NotAuthorized, TopicMissing, Unreachable
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Source
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Code
from tests.fakes.broker.topics import NOBODY
from tests.fakes.clock import ManualClock

FETCH = 1
LIST_OFFSETS, NO_RIGHTS, NOT_LEADER = 2, 29, 6
SOURCE = Source("shop", "east")
SCHEMA = fastavro.parse_schema(avro_schema(MirrorMetric))
ROW = MirrorMetric(0, 1_000, "i", "t-0", "shop", "east", "t", 0, 10, 1, 2, 2, 0, 0, (0,) * LATENCY_BUCKETS)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with ExitStack() as stack:
        made = stack.enter_context(running(FakeCluster("metrics", 1)))
        with made.lock:
            made.create_topic("m", 2)
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def reader(cluster: FakeCluster, clock: ManualClock) -> Iterator[TopicMeasurements]:
    settings = KafkaCluster(bootstrap_servers=cluster.address)
    with closing(TopicMeasurements(settings, "m", clock)) as reader:
        yield reader


def rows(clock: ManualClock, count: int) -> list[Content]:
    buffer = io.BytesIO()
    now_ms = clock.now_ms()
    fastavro.schemaless_writer(buffer, SCHEMA, row_of(replace(ROW, time_ms=now_ms - 1_000)))
    return [(now_ms, b"key", buffer.getvalue(), [])] * count


def write(cluster: FakeCluster, contents: list[Content], number: int = 0) -> None:
    with cluster.lock:
        cluster.write("m", contents, number)


def records(reader: TopicMeasurements) -> int:
    found = reader.observe(60.0).get(SOURCE)
    return 0 if found is None else found["t"].records


def test_new_rows_are_added_and_no_row_twice(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    assert records(reader) == 0
    for number in range(2):
        write(cluster, rows(clock, 3), number)
        clock.advance(2)
        assert [records(reader), records(reader)] == [30 * (number + 1)] * 2


def test_records_that_are_no_rows_and_those_of_aborted_transactions_are_skipped(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    now_ms = clock.now_ms()
    write(cluster, [(now_ms, None, value, []) for value in (None, b"", b"\xff" * 40, "ö".encode() * 9)])
    with cluster.lock:
        cluster.write_in_transaction("m", rows(clock, 4), commit=False)
        cluster.write_in_transaction("m", rows(clock, 2), commit=True)
    write(cluster, rows(clock, 1))
    assert records(reader) == 30


def test_a_topic_that_was_created_again_is_read_from_its_start(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(cluster, rows(clock, 9))
    assert records(reader) == 90
    with cluster.lock:
        cluster.delete_topic("m")
    clock.advance(2)
    with pytest.raises(TopicMissing):
        records(reader)
    with cluster.lock:
        cluster.create_topic("m", 1)
    write(cluster, rows(clock, 2))
    assert records(reader) == 20
    with cluster.lock:
        cluster.delete_topic("m")
        cluster.create_topic("m", 1)
    write(cluster, rows(clock, 5))
    clock.advance(2)
    assert records(reader) == 50


def test_a_window_is_read_again_after_the_clock_was_ahead(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(cluster, rows(clock, 3))
    clock.set_back(-3_600)
    assert records(reader) == 0
    clock.set_back(3_600)
    assert records(reader) == 30


def test_rows_that_were_deleted_before_they_were_read_are_skipped(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(cluster, rows(clock, 1))
    assert records(reader) == 10
    for _ in range(3):
        write(cluster, rows(clock, 1))
    with cluster.lock:
        cluster.log("m", 0).delete_before(3)
    clock.advance(2)
    assert records(reader) == 20


def lead(cluster: FakeCluster, number: int, leader: int) -> None:
    with cluster.lock:
        cluster.move_leader("m", number, leader)
        cluster.server.changed()


def test_available_partitions_are_read_beside_an_offline_one(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(cluster, rows(clock, 1))
    write(cluster, rows(clock, 2), 1)
    with capture_logs() as logs:
        lead(cluster, 1, NOBODY)
        assert records(reader) == 10
        for number in range(3):
            write(cluster, rows(clock, 1))
            clock.advance(2)
            assert records(reader) == 20 + 10 * number
        assert reader.past(TimeRangePiece(clock.now_ms() - 60_000, clock.now_ms()), [100])
        lead(cluster, 1, 1)
        clock.advance(2)
        assert [records(reader), records(reader)] == [60] * 2
    assert [(log["event"], log["topic"], log["partitions"]) for log in logs] == [
        ("unavailable partitions skipped", "m", "1")
    ]


def test_a_partition_that_was_offline_is_continued_without_losing_or_repeating_a_row(
    cluster: FakeCluster, reader: TopicMeasurements, clock: ManualClock
) -> None:
    for number in range(2):
        write(cluster, rows(clock, 1), number)
    assert records(reader) == 20
    write(cluster, rows(clock, 4), 1)
    lead(cluster, 1, NOBODY)
    clock.advance(2)
    assert records(reader) == 20
    lead(cluster, 1, 1)
    write(cluster, rows(clock, 1), 1)
    for _ in range(2):
        clock.advance(2)
        assert records(reader) == 70


def test_a_partition_that_cannot_be_fetched_does_not_hide_the_others(
    cluster: FakeCluster, clock: ManualClock
) -> None:
    write(cluster, rows(clock, 1))
    write(cluster, rows(clock, 2), 1)
    settings = KafkaCluster(bootstrap_servers=cluster.address)
    with closing(TopicMeasurements(settings, "m", clock, 1.0)) as reader:
        with cluster.lock:
            cluster.faults.plant(FETCH, Code(NOT_LEADER, "m", 0), times=None)
        assert records(reader) == 20
        with cluster.lock:
            cluster.faults.clear()
        clock.advance(2)
        assert records(reader) == 30


def test_a_topic_without_any_leader_names_a_partition(cluster: FakeCluster, clock: ManualClock) -> None:
    for number in range(2):
        lead(cluster, number, NOBODY)
    settings = KafkaCluster(bootstrap_servers=cluster.address)
    with (
        closing(TopicMeasurements(settings, "m", clock, 1.0)) as reader,
        pytest.raises(Unreachable, match=r"offsets of m-0 of .* has no leader: start a broker"),
    ):
        records(reader)


def test_a_missing_right_is_named(cluster: FakeCluster, reader: TopicMeasurements) -> None:
    with cluster.lock:
        cluster.faults.plant(LIST_OFFSETS, Code(NO_RIGHTS, "m"), times=None)
    with pytest.raises(NotAuthorized, match="grant Describe on topic m to User:ANONYMOUS"):
        records(reader)
