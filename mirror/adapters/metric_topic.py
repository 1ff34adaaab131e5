"""Writes records of `mirror.model.metrics` to a Kafka topic, as plain Avro without a header."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import fastavro
import structlog
from confluent_kafka import KafkaException, Producer

from mirror.adapters.kafka_settings import producer_settings
from mirror.adapters.settings import KafkaCluster
from mirror.errors import HeadraceError
from mirror.model.metrics import MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, row_of

_log = structlog.get_logger(__name__)
_Record = TypeVar("_Record")


class RecordTopic(Generic[_Record]):
    """A topic of one kind of record. Publishing never blocks and never fails.

    Measurements must not stop the mirror: what finds no room, or no topic, is dropped and counted
    in `dropped`; the first of a row is logged.
    """

    def __init__(
        self, cluster: KafkaCluster, topic: str, record: type[Any], key: Callable[[_Record], str]
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._schema = fastavro.parse_schema(avro_schema(record))
        self._key = key
        self._producer: Producer | None = None
        self.dropped = 0
        self._was_dropping = False

    def publish(self, records: Sequence[_Record]) -> None:
        """Hand over."""
        before = self.dropped
        problem: Exception | None = None
        try:
            producer = self._connected()
        except (HeadraceError, KafkaException) as error:
            self.dropped += len(records)
            self._tell(before, error)
            return
        for record in records:
            try:
                buffer = io.BytesIO()
                fastavro.schemaless_writer(buffer, self._schema, row_of(record))
                producer.produce(self._topic, buffer.getvalue(), self._key(record).encode())
            except Exception as error:  # noqa: BLE001 - the bulkhead around one record
                self.dropped += 1
                problem = error
        producer.poll(0)
        self._tell(before, problem)

    def _tell(self, before: int, problem: Exception | None) -> None:
        is_dropping = self.dropped > before
        if is_dropping and not self._was_dropping:
            _log.warning("measurements are dropped", topic=self._topic, reason=str(problem))
        self._was_dropping = is_dropping

    def close(self, deadline_seconds: float) -> None:
        """Wait for what was handed over, up to the deadline."""
        if self._producer is not None:
            left = self._producer.flush(deadline_seconds)
            self._producer = None
            if left:
                _log.warning("not delivered before the stop", records=left, topic=self._topic)

    def _connected(self) -> Producer:
        if self._producer is None:
            settings = producer_settings(self._cluster, "headrace-metrics") | {
                "acks": 1,
                "enable.idempotence": False,
                "message.timeout.ms": 30_000,
                "queue.buffering.max.kbytes": 8_192,
                "linger.ms": 50,
            }
            self._producer = Producer(settings)
        return self._producer


def mirror_metric_topic(cluster: KafkaCluster, topic: str) -> RecordTopic[MirrorMetric]:
    """Keyed by cluster, topic and partition."""
    return RecordTopic(
        cluster, topic, MirrorMetric, lambda one: f"{one.source_cluster}/{one.topic}/{one.kafka_partition}"
    )


def placement_event_topic(cluster: KafkaCluster, topic: str) -> RecordTopic[PlacementEvent]:
    """Keyed by the event's own key."""
    return RecordTopic(cluster, topic, PlacementEvent, lambda one: one.event_key)
