"""Writes records of `mirror.model.metrics` to a Kafka topic, as plain Avro without a header."""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import fastavro
import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from mirror.adapters.kafka_settings import producer_settings
from mirror.adapters.settings import KafkaCluster
from mirror.errors import HeadraceError
from mirror.model.metrics import Drops, MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, row_of
from mirror.repeats import RepeatedErrors

_log = structlog.get_logger(__name__)
_Record = TypeVar("_Record")
_QUIET_SECONDS: Final = 15.0
"""Without a dropped record, while others are delivered: it is over. With a queue that is full now and then
there would be no end of lines otherwise."""


class RecordTopic(Generic[_Record]):
    """A topic of one kind of record. Publishing never blocks and never fails. Thread-safe.

    Measurements must not stop the mirror: what finds no room, no topic, or no broker within
    `delivery_seconds`, is dropped and counted. The log has a line when that begins and one when it is over:
    records are delivered again and none was dropped for a while, or none was for longer than any waits.
    `now` gives monotonic seconds.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        record: type[Any],
        key: Callable[[_Record], str],
        delivery_seconds: float = 30.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._schema = fastavro.parse_schema(avro_schema(record))
        self._key = key
        self._delivery_seconds = delivery_seconds
        self._now = now
        self._producer: Producer | None = None
        self._lock = threading.Lock()
        self._drops = Drops()
        self._dropped_at = self._delivered_at = -math.inf
        self._episodes = RepeatedErrors[str]()

    def publish(self, records: Sequence[_Record]) -> None:
        """Hand over."""
        try:
            producer = self._connected()
        except (HeadraceError, KafkaException) as error:
            self._dropped(len(records), str(error) or type(error).__name__)
            return
        for record in records:
            try:
                buffer = io.BytesIO()
                fastavro.schemaless_writer(buffer, self._schema, row_of(record))
                key = self._key(record).encode()
                producer.produce(self._topic, buffer.getvalue(), key, on_delivery=self._on_delivery)
            except Exception as error:  # noqa: BLE001 - the bulkhead around one record
                self._dropped(1, str(error) or type(error).__name__)
        producer.poll(0)

    def drops(self) -> Drops:
        """What was not delivered, as far as it is known now. To be asked every second or so: late failures
        are only heard of here, and when something is published."""
        if self._producer is not None:
            self._producer.poll(0)
        with self._lock:
            now = self._now()
            is_delivering = self._delivered_at > self._dropped_at
            quiet = _QUIET_SECONDS if is_delivering else _QUIET_SECONDS + 2 * self._delivery_seconds
            for _, ended in self._episodes.silent(now - quiet):
                self._drops = Drops(self._drops.count)
                _log.warning(
                    "records are delivered again" if is_delivering else "no more records are dropped",
                    topic=self._topic,
                    dropped=ended.count,
                    seconds=round(ended.seconds, 1),
                )
            return self._drops

    def _on_delivery(self, error: KafkaError | None, _message: object) -> None:
        if error is not None:
            self._dropped(1, error.str())
            return
        with self._lock:
            self._delivered_at = self._now()

    def _dropped(self, count: int, reason: str) -> None:
        with self._lock:
            now = self._dropped_at = self._now()
            begins = False
            for _ in range(count):
                begins |= self._episodes.failed(self._topic, "", now)
            self._drops = Drops(self._drops.count + count, self._drops.reason or reason)
        if begins:
            _log.warning("records are dropped", topic=self._topic, reason=reason)

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
                "message.timeout.ms": int(self._delivery_seconds * 1000),
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
