"""Measurements read directly from the metrics topic on a real cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import pytest

from mirror.errors import AnalyticsError, TopicMissing, Unreachable
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import row_of
from mirror.settings import KafkaCluster
from monitor.adapters import topic_measurements
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Source
from pinot.tables import MIRROR_METRICS
from stack.kafka import KafkaCluster as Servers
from tests.fakes.clock import ManualClock
from tests.kafka_data import Record, delete_records, delete_topic, make_topic, produce
from tests.metrics_data import ROWS_WRITTEN_MS, a_measurement, write_rows
from tests.patience import PATIENCE_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.deep]

SOURCE = Source("group", "east")
WINDOW = 60.0


@pytest.fixture
def clock() -> ManualClock:
    clock = ManualClock()
    clock.advance((ROWS_WRITTEN_MS - clock.now_ms()) / 1000)
    return clock


@pytest.fixture
def topic(source_kafka: Servers) -> str:
    name = f"measurements-{uuid4().hex[:8]}"
    make_topic(source_kafka.address, name, 3)
    return name


@pytest.fixture
def reader(source_kafka: Servers, topic: str, clock: ManualClock) -> Iterator[TopicMeasurements]:
    cluster = KafkaCluster(bootstrap_servers=source_kafka.address)
    with closing(TopicMeasurements(cluster, topic, clock, PATIENCE_SECONDS)) as reader:
        yield reader


def write(kafka: Servers, topic: str, *metrics: MirrorMetric) -> None:
    rows = [(f"{one.topic}/{one.kafka_partition}", row_of(one)) for one in metrics]
    write_rows(kafka.address, topic, MIRROR_METRICS, rows)


def a_row(partition: int, clock: ManualClock, lag: int = 0) -> MirrorMetric:
    return a_measurement(SOURCE.group, SOURCE.cluster, partition, clock.now_ms() - 1_000, 3, lag)


def test_a_look_reads_on_where_the_last_one_ended_and_forgets_what_is_old(
    source_kafka: Servers, topic: str, reader: TopicMeasurements, clock: ManualClock
) -> None:
    assert reader.observe(WINDOW) == {}
    write(source_kafka, topic, *(a_row(number, clock, lag=50) for number in range(5)))
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 50
    clock.advance(30)
    write(source_kafka, topic, a_row(0, clock, lag=7))
    seen = reader.observe(WINDOW)[SOURCE]["t"]
    assert (seen.records, seen.lag_ms) == (60, 50)
    clock.advance(31)
    seen = reader.observe(WINDOW)[SOURCE]["t"]
    assert (seen.records, seen.lag_ms) == (10, 7)
    assert reader.observe(10 * WINDOW)[SOURCE]["t"].records == 60  # read again, from further back
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 10
    clock.advance(WINDOW)
    assert reader.observe(WINDOW) == {}
    with pytest.raises(AnalyticsError):
        reader.observe(3_601.0)


def test_the_windows_of_an_evaluation_come_from_one_query(
    source_kafka: Servers, topic: str, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(source_kafka, topic, a_row(0, clock))
    assert reader.observe(5 * WINDOW)[SOURCE]["t"].records == 10
    write(source_kafka, topic, a_row(0, clock))
    assert reader.observe(2 * WINDOW)[SOURCE]["t"].records == 10
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 10
    assert reader.observe(5 * WINDOW)[SOURCE]["t"].records == 20, "the next evaluation has no new rows"
    write(source_kafka, topic, a_row(0, clock))
    clock.advance(1)
    assert reader.observe(2 * WINDOW)[SOURCE]["t"].records == 30, "no new rows for other windows"


def test_pieces_of_the_last_hour_are_read_back(
    source_kafka: Servers,
    topic: str,
    reader: TopicMeasurements,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_ms = clock.now_ms()
    for minutes in (0, 5, 50):
        row = replace(a_row(0, clock, lag=7), time_ms=now_ms - minutes * 60_000 - 1_000)
        write(source_kafka, topic, row)

    def records(minutes: int) -> Sequence[int]:
        until_ms = clock.now_ms() - minutes * 60_000
        return reader.past(TimeRangePiece(until_ms - 60_000, until_ms), [1_000]).records

    assert records(0) == [10]
    assert records(5) == [10], "not read again from further back"
    monkeypatch.setattr(topic_measurements, "_MOST_ROWS", 2)
    with pytest.raises(AnalyticsError, match="has 3 rows since"):
        records(50)
    assert records(5) == [10], "rows read before were dropped"
    monkeypatch.undo()
    assert list(records(50)) == [10]
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 10
    with pytest.raises(AnalyticsError, match="Pinot"):
        records(70)
    write(source_kafka, topic, a_row(1, clock))
    clock.advance(10)
    assert records(0) == [20]
    clock.advance(700)
    minute_ms = (now_ms - 1_000) // 60_000 * 60_000
    found = reader.past(TimeRangePiece(minute_ms, minute_ms + 60_000), [1_000])
    assert found.records == [20], "rows of the time without reads are missing"


def test_what_is_no_measurement_is_left_out(
    source_kafka: Servers, topic: str, reader: TopicMeasurements, clock: ManualClock
) -> None:
    values = [None, b"", b"\xff" * 40, b"{}"]
    produce(source_kafka.address, topic, [Record(0, None, one, (), ROWS_WRITTEN_MS) for one in values])
    write(source_kafka, topic, a_row(0, clock), replace(a_row(1, clock), time_ms=2**62))
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 10


def test_a_topic_that_is_made_again_or_emptied_is_read_on(
    source_kafka: Servers, topic: str, reader: TopicMeasurements, clock: ManualClock
) -> None:
    write(source_kafka, topic, *(a_row(number, clock) for number in range(9)))
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 90
    delete_topic(source_kafka.address, topic)
    with pytest.raises(TopicMissing):
        reader.observe(WINDOW)
    make_topic(source_kafka.address, topic, 1)
    write(source_kafka, topic, a_row(0, clock))
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 10
    delete_records(source_kafka.address, topic, 0, 1)
    write(source_kafka, topic, a_row(0, clock))
    assert reader.observe(WINDOW)[SOURCE]["t"].records == 20
    reader.close()
    delete_records(source_kafka.address, topic, 0, 2)
    assert reader.observe(WINDOW) == {}


def test_a_cluster_that_is_away_is_an_error_that_passes(clock: ManualClock) -> None:
    nobody = KafkaCluster(bootstrap_servers="127.0.0.1:1")
    with closing(TopicMeasurements(nobody, "any", clock, 0.5)) as reader, pytest.raises(Unreachable):
        reader.observe(WINDOW)
