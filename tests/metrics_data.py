"""Samples and metric rows in real topics and tables, for tests."""

from __future__ import annotations

import gzip
import io
import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import fastavro

from mirror.errors import AnalyticsError
from mirror.model.audit_window import AuditWindow
from mirror.model.latency import LATENCY_BUCKETS, latency_bucket
from mirror.model.metrics import MirrorMetric
from mirror.model.rows import row_of
from mirror.settings import KafkaCluster
from pinot.client import PinotClient
from pinot.deployment.controller import PinotController
from pinot.deployment.deploy import apply
from pinot.schemas import Placement, avro_schema
from pinot.settings import PinotSettings
from pinot.tables import TABLES, LogGrowth, PartitionMetric, PartitionMetricHourly, SampledPartition, Table
from pmp.samples.sample import Sample, encode
from stack.pinot import PinotServer
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.patience import wait_until

RECORDING = Path(__file__).parent / "data" / "cruise-control"

ROWS_WRITTEN_MS = 1_795_000_000_000
"""Timestamp of the records that `write_rows` writes."""

_numbers = itertools.count(1)


def fresh_name(prefix: str) -> str:
    """Return a name that is unique in the session."""
    return f"{prefix}-{next(_numbers)}"


def a_sample(
    topic: str = "orders", partition: int = 0, time_ms: int = 1_795_000_000_000, **other: Any
) -> Sample:
    """Return a plausible sample; pass the relevant fields."""
    plain = Sample(
        topic=topic,
        partition=partition,
        broker=1,
        time_ms=time_ms,
        bytes_in_per_second=1000.0,
        bytes_out_per_second=2000.0,
        size_bytes=1_000_000.0,
        messages_in_per_second=10.0,
    )
    return replace(plain, **other)


def write_values(address: str, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
    """Write raw values without keys to a sample topic, like Cruise Control."""
    records = (Record(partition, None, value, (), 1_795_000_000_000) for value in values)
    produce(address, topic, records, **{"compression.type": "gzip"})


def write_samples(
    address: str, topic: str, samples: Iterable[Sample], partition: int = 0, version: int = 1
) -> None:
    """Write samples to a sample topic."""
    write_values(address, topic, (encode(one, version=version) for one in samples), partition)


def rows_in(address: str, topic: str, table: Table) -> list[dict[str, Any]]:
    """Return every decoded row of a metrics topic; asserts that keys match their rows."""
    schema = fastavro.parse_schema(avro_schema(table))
    rows = []
    for record in read_all(address, topic):
        assert record.value is not None
        row = fastavro.schemaless_reader(io.BytesIO(record.value), schema, None)
        assert isinstance(row, dict)
        assert record.key == f"{row['cluster']}/{row['topic']}/{row['kafka_partition']}".encode()
        rows.append(row)
    return rows


def write_rows(
    address: str, topic: str, table: Table, keyed: Sequence[tuple[str, Mapping[str, Any]]]
) -> None:
    """Write rows with their keys to the topic of a table like the job, partitioned by key."""
    schema = fastavro.parse_schema(avro_schema(table))
    records = []
    for key, row in keyed:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, schema, dict(row))
        records.append(Record(-1, key.encode(), buffer.getvalue(), (), ROWS_WRITTEN_MS))
    produce(address, topic, records, partitioner="murmur2_random")


@cache
def recorded_samples() -> list[dict[str, Any]]:
    """Return the recording of a real Cruise Control, one record per line."""
    with gzip.open(RECORDING / "samples.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@cache
def recorded_truth() -> list[dict[str, Any]]:
    """Return the log sizes during the recording, one second per line."""
    with gzip.open(RECORDING / "truth.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def pinot_settings(server: PinotServer) -> PinotSettings:
    """Return the settings to reach a test Pinot."""
    return PinotSettings(
        controller=server.controller_address, broker=server.broker_address, timeout_seconds=20.0, attempts=5
    )


def apply_tables(server: PinotServer, address: str, partitions: int = 4) -> None:
    """Create all tables over topics of their default names on the cluster at `address`."""
    from mirror.adapters.kafka_admin import KafkaAdmin

    present = KafkaAdmin(KafkaCluster(bootstrap_servers=address)).list_topics()
    for table in TABLES:
        if table.topic not in present:
            make_topic(address, table.topic, partitions)
    controller = PinotController(pinot_settings(server))
    wanted = {table: Placement(address, table.topic, 3650) for table in TABLES}
    apply(controller, wanted)
    controller.close()


class MetricsWorld:
    """Client of the shared Pinot that can write rows to its tables."""

    def __init__(self, client: PinotClient, address: str) -> None:
        self.client = client
        self.address = address

    def put(self, table: Table, records: Sequence[Any], distinct: int | None = None) -> None:
        """Write records of a table's class and wait for the rows in Pinot: `distinct`, by default all."""
        before = self.count(table)
        keyed = [(_key(record), row_of(record)) for record in records]
        write_rows(self.address, table.topic, table, keyed)
        wanted = before + (len(records) if distinct is None else distinct)
        wait_until(lambda: self.count(table) >= wanted, f"{wanted} rows of {table.name}")

    def count(self, table: Table) -> int:
        """Return the number of rows in Pinot, or 0 while the table is being created."""
        try:
            return int(self.client.ask(f"select count(*) from {table.name} limit 1").rows[0][0])
        except AnalyticsError:
            return 0


def _key(record: Any) -> str:
    if hasattr(record, "event_key"):
        return str(record.event_key)
    if isinstance(record, AuditWindow):
        return record.id
    if isinstance(record, MirrorMetric):
        return f"{record.source_cluster}/{record.topic}/{record.kafka_partition}"
    place = record.partition
    return f"{place.cluster}/{place.topic}/{place.kafka_partition}"


def a_metric(cluster: str, topic: str, partition: int, time_ms: int, **other: Any) -> PartitionMetric:
    """Return a row of `partitionMetrics`; pass the relevant columns."""
    place = SampledPartition("dc", cluster, topic, partition, other.pop("broker", 1))
    growth = LogGrowth(other.pop("growth_bytes", 1000.0), other.pop("growth_ms", 10_000))
    plain = PartitionMetric(
        time_ms=time_ms,
        partition=place,
        source="cruise-control",
        bytes_in_per_second=100.0,
        bytes_out_per_second=0.0,
        messages_in_per_second=10.0,
        size_bytes=1e6,
        growth=growth,
        inflow_bytes_per_second=100.0,
        shrunk=0,
    )
    return replace(plain, **other)


def a_rollup(
    cluster: str, partition: int, hour_ms: int, rate: float, topic: str = "t"
) -> PartitionMetricHourly:
    """Return a row of `partitionMetricsHourly` with the same load for every statistic."""

    return PartitionMetricHourly(
        hour_ms=hour_ms,
        partition=SampledPartition("dc", cluster, topic, partition, 1),
        samples=30,
        mean_bytes_per_second=rate,
        p95_bytes_per_second=rate,
        max_bytes_per_second=rate,
        sampled_bytes_per_second=rate,
        mean_messages_per_second=1.0,
        p95_messages_per_second=1.0,
        max_messages_per_second=1.0,
        mean_bytes_out_per_second=0.0,
        size_bytes=1.0,
        growth=LogGrowth(1.0, 1),
        shrunk=0,
    )


def a_measurement(
    datastream: str, cluster: str, partition: int, time_ms: int, latency_ms: int, lag: int
) -> MirrorMetric:
    """Return a row of `mirrorMetrics`: 10 records, 1000 bytes in total, in 5 s."""
    counts = [0] * LATENCY_BUCKETS
    counts[latency_bucket(latency_ms)] = 10
    return MirrorMetric(
        time_ms=time_ms,
        interval_ms=5000,
        instance="i",
        task=f"task-{partition % 2}",
        datastream=datastream,
        source_cluster=cluster,
        topic="t",
        kafka_partition=partition,
        records_copied=10,
        bytes_copied=1000,
        batches=1,
        passthrough_batches=1,
        lag_records=lag,
        lag_ms=lag,
        latency_counts=tuple(counts),
    )
