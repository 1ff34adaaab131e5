"""Writer of hourly rollups: plain Avro, keyed by cluster, topic and partition."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Final

import fastavro
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from librdkafka.errors import translate
from librdkafka.settings import producer_settings
from mirror.errors import Unreachable
from mirror.model.rows import row_of
from mirror.settings import KafkaCluster
from mirror.wording import counted
from pinot.schemas import avro_schema
from pinot.tables import PARTITION_METRICS_HOURLY, UNKNOWN, PartitionMetricHourly

_FLUSH_SECONDS: Final = 30.0


class HourlyTopic:
    """Implements `pmp.ports.HourSink`. Connects at the first write; used by one thread."""

    def __init__(self, cluster: KafkaCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._schema = fastavro.parse_schema(avro_schema(PARTITION_METRICS_HOURLY))
        self._nullable = PARTITION_METRICS_HOURLY.nullable
        self._producer: Producer | None = None
        self._error: KafkaError | None = None

    def write(self, rows: Iterable[PartitionMetricHourly]) -> None:
        """Write rollups and wait for the acknowledgements. Raises Unreachable, Refused."""
        if self._producer is None:
            self._producer = Producer(
                producer_settings(self._cluster, "headrace-rollup")
                | {"linger.ms": 50, "message.timeout.ms": 20_000}
            )
        self._error = None
        for row in rows:
            place = row.partition
            key = f"{place.cluster}/{place.topic}/{place.kafka_partition}".encode()
            self._produce(self._producer, key, self._encoded(row))
        left = self._producer.flush(_FLUSH_SECONDS)
        if self._error is not None:
            raise translate(self._error, f"writing to {self._topic}")
        if left:
            raise Unreachable(
                f"{counted(left, 'rollup was', 'rollups were')} not acknowledged "
                f"by {self._cluster.bootstrap_servers}"
            )

    def close(self) -> None:
        """Close the connection; unacknowledged rollups are lost."""
        self._producer = None

    def _encoded(self, row: PartitionMetricHourly) -> bytes:
        values: dict[str, int | float | str | None] = dict(row_of(row))
        for name in self._nullable:
            if values[name] == UNKNOWN:
                values[name] = None
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._schema, values)
        return buffer.getvalue()

    def _produce(self, producer: Producer, key: bytes, value: bytes) -> None:
        while True:
            try:
                producer.produce(self._topic, key=key, value=value, on_delivery=self._delivered)
            except BufferError:
                producer.poll(0.1)
            except KafkaException as error:
                raise translate(error, f"writing to {self._topic}") from error
            else:
                return

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._error = error
