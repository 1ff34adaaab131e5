"""Incidents in a compacted topic as JSON keyed by id, and in another topic as rows for Pinot.

Implements `monitor.records.keeper.RecordStore`. The topic has a single writer: `load` fences the previous
monitor. A former monitor may only have been frozen, and must not overwrite records of its successor.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final

import fastavro
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from librdkafka.errors import translate
from librdkafka.settings import consumer_settings, producer_settings
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.errors import DamagedState, HeadraceError, TimedOut, legible
from mirror.model.rows import row_of
from mirror.model.topics import TopicDescription
from mirror.settings import KafkaCluster
from monitor.adapters.fenced_producer import FencedProducer
from monitor.records.record import NOTES, IncidentRecord, StoredMonitorState, record_from_json, record_to_json
from monitor.records.row import row_of_incident
from pinot.schemas import avro_schema
from pinot.tables import INCIDENTS

_log = structlog.get_logger(__name__)

_PATIENCE_SECONDS: Final = 15.0
_WAIT_SECONDS: Final = 0.1
"""Time-out of one poll, which returns at most a thousand messages and often fewer."""
_MOST_ROWS: Final = 1_000
_DAY_MS: Final = 24 * 3_600_000


class IncidentTopic:
    """Stores incidents in a topic. `load` and `write` are not thread-safe. `days`: retention when the topic
    is created. `rows`: topic of Pinot's table `incidents`; empty if none. Rows that cannot be written are
    written with the next incident; they never prevent storing an incident."""

    def __init__(self, cluster: KafkaCluster, topic: str, days: int, rows: str = "") -> None:
        self._cluster = cluster
        self._rows = rows
        self._waiting_rows: dict[str, IncidentRecord] = {}
        self._row_trouble = ""
        self._row_schema = fastavro.parse_schema(avro_schema(INCIDENTS))
        settings = {"cleanup.policy": "compact,delete", "retention.ms": str(days * _DAY_MS)}
        self._description = TopicDescription(topic, 1, settings=settings)
        self._writer = FencedProducer(cluster, "headrace-monitor", f"headrace-monitor-{topic}")
        self._is_made = False
        self._row_writer: Producer | None = None

    def load(self) -> StoredMonitorState:
        """Fence other writers and return the content of the topic; empty if the topic does not exist yet.
        Raises Unreachable, TimedOut, Refused."""
        self._writer.take()
        with closing(KafkaAdmin(self._cluster)) as admin:
            is_there = admin.describe([self._description.name])
        return self.read() if is_there else StoredMonitorState()

    def _make(self) -> None:
        with closing(KafkaAdmin(self._cluster)) as admin:
            admin.create(self._description)
            if self._rows:
                self._make_rows(admin)

    def _make_rows(self, admin: KafkaAdmin) -> None:
        try:
            admin.create(TopicDescription(self._rows, 1))
        except HeadraceError as error:
            self._log_skipped_rows(str(error))

    def read(self) -> StoredMonitorState:
        """Return the latest state of all incidents and notes. Invalid records are logged and skipped.
        Thread-safe.

        Raises TopicMissing, Unreachable, TimedOut, Refused."""
        consumer = Consumer(
            consumer_settings(self._cluster, "headrace-monitor", "headrace-monitor")
            | {"enable.partition.eof": True, "auto.offset.reset": "earliest"}
        )
        try:
            return self._read(consumer)
        except KafkaException as error:
            raise translate(error, f"reading {self._description.name}") from error
        finally:
            consumer.close()

    def _read(self, consumer: Consumer) -> StoredMonitorState:
        found: dict[str, bytes] = {}
        place = TopicPartition(self._description.name, 0)
        first, end = consumer.get_watermark_offsets(place, timeout=_PATIENCE_SECONDS)
        consumer.assign([TopicPartition(place.topic, 0, first)])
        is_over, patience = first >= end, _PATIENCE_SECONDS
        while not is_over:
            messages = consumer.consume(1_000, timeout=_WAIT_SECONDS)
            patience = _PATIENCE_SECONDS if messages else patience - _WAIT_SECONDS
            if patience <= 0:
                raise TimedOut(f"reading {place.topic}: no messages for {_PATIENCE_SECONDS:.0f} s")
            for message in messages:
                is_over = is_over or _take(message, found)
        notes = {key: value for key, value in found.items() if key.startswith(NOTES)}
        return StoredMonitorState(
            list(_records((key, value) for key, value in found.items() if key not in notes)), notes
        )

    def reclaim(self) -> None:
        """Fence other writers again with the next write."""
        self._writer.reclaim()

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        """Write records and notes and wait for the commit. Raises Fenced if another monitor has taken over,
        Unreachable, Refused."""
        if not self._is_made:
            self._make()
        self._is_made = False  # so that the next attempt recreates a deleted topic
        values = dict(notes) | {record.id: record_to_json(record) for record in records}
        self._writer.write(self._description.name, values)
        self._is_made = True
        if self._rows:
            self._write_rows(records)

    def _write_rows(self, records: Sequence[IncidentRecord]) -> None:
        for record in records:
            self._waiting_rows.pop(record.id, None)
            self._waiting_rows[record.id] = record
        for old in list(self._waiting_rows)[: max(0, len(self._waiting_rows) - _MOST_ROWS)]:
            del self._waiting_rows[old]
        if self._row_writer is None:
            settings = producer_settings(self._cluster, "headrace-monitor")
            self._row_writer = Producer(settings | {"message.timeout.ms": 10_000})
        try:
            for key, one in list(self._waiting_rows.items()):
                written = partial(self._row_delivered, one)
                row = self._row(one)
                self._row_writer.produce(self._rows, key=key.encode(), value=row, on_delivery=written)
        except (KafkaException, BufferError) as error:
            self._log_skipped_rows(str(error))
        self._row_writer.flush(_PATIENCE_SECONDS)

    def _row_delivered(self, record: IncidentRecord, error: KafkaError | None, _: Message) -> None:
        self._log_skipped_rows("" if error is None else error.str())
        if error is None and self._waiting_rows.get(record.id) is record:
            del self._waiting_rows[record.id]

    def _log_skipped_rows(self, reason: str) -> None:
        """Log the start and end of a failure and changes of its reason."""
        if reason and reason != self._row_trouble:
            _log.warning("cannot write incident rows for Pinot", topic=self._rows, reason=reason)
        elif self._row_trouble and not reason:
            _log.info("writing incident rows for Pinot again", topic=self._rows)
        self._row_trouble = reason

    def _row(self, record: IncidentRecord) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._row_schema, row_of(row_of_incident(record)))
        return buffer.getvalue()


def _take(message: Message, found: dict[str, bytes]) -> bool:
    """Apply a message to `found`; return True at the end of the partition."""
    failure, key, value = message.error(), message.key(), message.value()
    if failure is not None:
        if failure.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's own code
            return True
        raise KafkaException(failure)
    name = bytes(key or b"").decode(errors="replace")
    if not name or value is None:
        found.pop(name, None)
    else:
        found[name] = bytes(value)
    return False


def _records(values: Iterable[tuple[str, bytes]]) -> Iterator[IncidentRecord]:
    for key, value in values:
        try:
            record = record_from_json(value)
        except DamagedState as error:
            _log.warning("invalid incident skipped", reason=str(error))
            continue
        if record.id == key:
            yield record
        else:
            _log.warning("incident with wrong key skipped", incident=record.id, key=legible(key))
