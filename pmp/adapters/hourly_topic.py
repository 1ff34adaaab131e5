"""Writes hourly rollups to a topic: plain Avro, keyed by cluster, topic and partition."""

from __future__ import annotations

import io
from collections.abc import Iterable

import fastavro

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.adapters.system_clock import SystemClock
from mirror.model.rows import row_of
from mirror.protocol.batches.records import Record
from mirror.settings import KafkaCluster
from pinot.schemas import avro_schema
from pinot.tables import PARTITION_METRICS_HOURLY, UNKNOWN, PartitionMetricHourly


class HourlyTopic:
    """Writes hourly rollups to their topic. Implements `pmp.ports.HourSink`."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._client = TopicClient(cluster, topic, "headrace-rollup")
        self._schema = fastavro.parse_schema(avro_schema(PARTITION_METRICS_HOURLY))
        self._nullable = PARTITION_METRICS_HOURLY.nullable

    def write(self, rows: Iterable[PartitionMetricHourly]) -> None:
        """Write rollups and wait for the acknowledgements. Raises the errors of `TopicClient.append`."""
        now_ms = SystemClock().now_ms()
        self._client.append([Record(0, now_ms, _key(row), self._encoded(row)) for row in rows])

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _encoded(self, row: PartitionMetricHourly) -> bytes:
        values: dict[str, int | float | str | None] = dict(row_of(row))
        for name in self._nullable:
            if values[name] == UNKNOWN:
                values[name] = None
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, values)
        return buffer.getvalue()


def _key(row: PartitionMetricHourly) -> bytes:
    place = row.partition
    return f"{place.cluster}/{place.topic}/{place.kafka_partition}".encode()
