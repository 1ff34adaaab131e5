"""Writes the records of `mirror.model.metrics` to a Kafka topic, as plain Avro without a header."""

from __future__ import annotations

import io
import math
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

import fastavro

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import shared_loop
from mirror.adapters.kafka.record_writer import QUEUE_BYTES, DeliveryCalls, RecordWriter
from mirror.adapters.kafka.session import REQUEST_SECONDS, ClusterSession
from mirror.adapters.settings import KafkaCluster
from mirror.adapters.system_clock import SystemClock
from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.metrics import Drops, MirrorMetric, PlacementEvent
from mirror.model.rows import avro_schema, row_of
from mirror.protocol.batches.records import Record
from mirror.repeats import RepeatedErrors

_log = get_logger(__name__)
_Record = TypeVar("_Record")
_QUIET_SECONDS: Final = 15.0
"""Seconds without drops after which an episode of drops ends, if other records are delivered.

A shorter time would cause many log lines for a queue that is full occasionally.
"""


_FULL: Final = f"Queue full: {QUEUE_BYTES // 2**20} MiB wait to be delivered"


class RecordTopic(Generic[_Record]):
    """Publisher of one record type to a topic. Publishing never blocks and never fails. Thread-safe.

    Metrics must not stop the mirror. Records are dropped and counted if the queue is full, if the topic is
    missing, or if no broker stores them within `delivery_seconds`. An episode of drops is logged at its start
    and at its end. The episode ends if records are delivered and none was dropped for a while, or if none was
    dropped for longer than any record can wait. `now`: returns monotonic seconds.
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
        self._clock = SystemClock()
        self._writer: RecordWriter | None = None
        self._opening = threading.Lock()
        self._lock = threading.Lock()
        self._drops = Drops()
        self._dropped_at = self._delivered_at = -math.inf
        self._episodes = RepeatedErrors[str]()

    def publish(self, records: Sequence[_Record]) -> None:
        """Queue records for delivery to the topic."""
        try:
            writer = self._opened()
        except HeadraceError as error:
            self._dropped(len(records), str(error))
            return
        now_ms = self._clock.now_ms()
        for record in records:
            with Bulkhead(lambda error: self._dropped(1, str(error) or type(error).__name__)):
                buffer = io.BytesIO()
                fastavro.schemaless_writer(buffer, self._schema, row_of(record))
                if not writer.put(Record(0, now_ms, self._key(record).encode(), buffer.getvalue())):
                    self._dropped(1, _FULL)

    def drops(self) -> Drops:
        """Return the number of dropped records, and log that a period of drops has ended.

        Call this method about once a second, because only it detects the end of an episode of drops.
        """
        with self._lock:
            now = self._now()
            is_delivering = self._delivered_at > self._dropped_at
            quiet = _QUIET_SECONDS if is_delivering else _QUIET_SECONDS + 2 * self._delivery_seconds
            for _, ended in self._episodes.silent(now - quiet):
                self._drops = Drops(self._drops.count)
                _log.warning(
                    "records delivered again" if is_delivering else "no more records dropped",
                    topic=self._topic,
                    dropped=ended.count,
                    seconds=round(ended.seconds, 1),
                )
            return self._drops

    def _delivered(self) -> None:
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
            _log.warning(
                "records dropped; mirrored records are not affected", topic=self._topic, reason=reason
            )

    def close(self, deadline_seconds: float) -> None:
        """Wait for queued records until the deadline."""
        if self._writer is not None:
            left = self._writer.close(deadline_seconds)
            self._writer = None
            if left:
                _log.warning("records not delivered before the stop", records=left, topic=self._topic)

    def _opened(self) -> RecordWriter:
        with self._opening:
            if self._writer is None:
                usable_access(self._cluster)  # fail early, before anything is queued
                session = ClusterSession(
                    self._cluster.bootstrap_servers,
                    "headrace-metrics",
                    partial(usable_access, self._cluster),
                    request_seconds=min(REQUEST_SECONDS, self._delivery_seconds),
                )
                calls = DeliveryCalls(self._delivered, self._dropped)
                self._writer = RecordWriter(
                    shared_loop(), session, self._topic, self._delivery_seconds, calls
                )
            return self._writer


def mirror_metric_topic(cluster: KafkaCluster, topic: str) -> RecordTopic[MirrorMetric]:
    """Return the publisher of lane measurements.

    Record keys consist of cluster, topic and partition.
    """
    return RecordTopic(
        cluster,
        topic,
        MirrorMetric,
        lambda metric: f"{metric.source_cluster}/{metric.topic}/{metric.kafka_partition}",
    )


def placement_event_topic(cluster: KafkaCluster, topic: str) -> RecordTopic[PlacementEvent]:
    """Return the publisher of placement events. The record key is the key of the event."""
    return RecordTopic(cluster, topic, PlacementEvent, lambda event: event.event_key)
