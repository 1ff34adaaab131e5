"""Measurements read from a metrics topic on a fake broker."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import fastavro
import pytest

from mirror.adapters.settings import KafkaCluster
from mirror.errors import NotAuthorized, TopicMissing
from mirror.model.latency import LATENCY_BUCKETS
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import avro_schema, row_of
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.latency import Source
from tests.fakes.broker.batches import Content
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Code
from tests.fakes.clock import ManualClock

LIST_OFFSETS, NO_RIGHTS = 2, 29
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


def test_a_missing_right_is_named(cluster: FakeCluster, reader: TopicMeasurements) -> None:
    with cluster.lock:
        cluster.faults.plant(LIST_OFFSETS, Code(NO_RIGHTS, "m"), times=None)
    with pytest.raises(NotAuthorized, match="grant Describe on topic m to User:ANONYMOUS"):
        records(reader)
