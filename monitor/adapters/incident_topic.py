"""Stores incidents as JSON in a compacted topic with the id as key, and as rows for Pinot in another topic.

Implements `monitor.records.keeper.RecordStore`. The topic has a single writer: `load` fences the previous
monitor. A former monitor may resume after a freeze, and must not overwrite records of its successor.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import fastavro

from mirror.adapters.kafka.topic_client import TopicClient, create_missing
from mirror.adapters.settings import KafkaCluster
from mirror.client.cluster import Cluster
from mirror.client.log_reader import log_range
from mirror.client.log_writer import write_patiently
from mirror.errors import DamagedState, HeadraceError, Refused
from mirror.loggers import get_logger
from mirror.model.reasons import legible
from mirror.model.rows import row_of
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.partitioner import partitioned_batches
from mirror.protocol.batches.records import Record
from monitor.adapters.fenced_writer import FencedWriter
from monitor.records.record import NOTES, IncidentRecord, StoredMonitorState, record_from_json, record_to_json
from monitor.records.row import row_of_incident
from pinot.schemas import avro_schema
from pinot.tables import INCIDENTS

_log = get_logger(__name__)

_CLIENT_ID: Final = "headrace-monitor"
_SECONDS: Final = 60.0
_MOST_ROWS: Final = 1_000
_DAY_MS: Final = 24 * 3_600_000


class IncidentTopic:
    """Stores incidents in a topic. `load` and `write` are not thread-safe.

    `days`: retention of a topic that this class creates. `rows`: topic of Pinot's table `incidents`, empty
    without Pinot. Rows that cannot be written are written with the next incident.
    """

    def __init__(self, cluster: KafkaCluster, topic: str, days: int, rows: str = "") -> None:
        self._rows = TopicDescription(rows, 1)
        self._waiting_rows: dict[str, IncidentRecord] = {}
        self._row_trouble = ""
        self._row_schema = fastavro.parse_schema(avro_schema(INCIDENTS))
        settings = {"cleanup.policy": "compact,delete", "retention.ms": str(days * _DAY_MS)}
        self._description = TopicDescription(topic, 1, settings=settings)
        self._client = TopicClient(cluster, topic, _CLIENT_ID)
        self._writer = FencedWriter(TopicPartition(topic, 0), f"{_CLIENT_ID}-{topic}")

    def load(self) -> StoredMonitorState:
        """Create the topic if it is missing, fence other writers, and return the stored incidents and notes.

        Raises Unreachable, TimedOut, Refused.
        """

        async def take(cluster: Cluster) -> None:
            await create_missing(cluster, self._description)
            await self._writer.take(cluster)

        self._client.ask("cannot take over", take, _SECONDS)
        return self.read()

    def read(self) -> StoredMonitorState:
        """Return the latest state of all incidents and notes. Invalid records are logged and skipped.
        Thread-safe.

        Raises TopicMissing, Unreachable, TimedOut, Refused."""
        found = self._client.ask("cannot read", self._read, _SECONDS)
        notes = {key: value for key, value in found.items() if key.startswith(NOTES)}
        return StoredMonitorState(
            list(_records((key, value) for key, value in found.items() if key not in notes)), notes
        )

    async def _read(self, cluster: Cluster) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        place = (await self._client.partitions(cluster))[0]
        start, end = await log_range(cluster, place)
        async for record in self._client.records(cluster, place, start, end):
            name = (record.key or b"").decode(errors="replace")
            if not name or record.value is None:
                found.pop(name, None)
            else:
                found[name] = record.value
        return found

    def reclaim(self) -> None:
        """Make the next write fence all other writers, even if another writer has fenced this one."""
        self._writer.reclaim()

    def write(self, records: Sequence[IncidentRecord], notes: Mapping[str, bytes | None]) -> None:
        """Write incident records and notes, and wait until they are stored. Raises Fenced if another monitor
        has taken over, Unreachable, Refused."""
        values = dict(notes) | {record.id: record_to_json(record) for record in records}

        async def write(cluster: Cluster) -> None:
            await create_missing(cluster, self._description)
            await self._writer.write(cluster, values)

        self._client.ask("cannot write to", write, _SECONDS)
        if self._rows.name:
            self._write_rows(records)

    def _write_rows(self, records: Sequence[IncidentRecord]) -> None:
        for record in records:
            self._waiting_rows.pop(record.id, None)
            self._waiting_rows[record.id] = record
        for old in list(self._waiting_rows)[: max(0, len(self._waiting_rows) - _MOST_ROWS)]:
            del self._waiting_rows[old]
        rows = {key: self._row(record) for key, record in self._waiting_rows.items()}
        try:
            refused = self._client.ask("cannot write the rows of", partial(self._put_rows, rows), _SECONDS)
        except HeadraceError as error:
            self._log_skipped_rows(str(error))
            return
        self._waiting_rows = {key: row for key, row in self._waiting_rows.items() if key in refused}
        self._log_skipped_rows(next(iter(refused.values()), ""))

    async def _put_rows(self, rows: Mapping[str, bytes], cluster: Cluster) -> Mapping[str, str]:
        """Write rows of incidents for Pinot. Map the key of each rejected row to its error."""
        await create_missing(cluster, self._rows)
        now_ms, refused = cluster.loop.clock.now_ms(), dict[str, str]()
        records = [Record(0, now_ms, key.encode(), row) for key, row in rows.items()]
        for place, batch in partitioned_batches(records, cluster.topics[self._rows.name].partitions):
            try:
                await write_patiently(cluster, place, write_batch(batch, Codec.LZ4))
            except Refused as error:
                refused |= {(record.key or b"").decode(): str(error) for record in batch}
        return refused

    def _log_skipped_rows(self, reason: str) -> None:
        """Log when rows start to be rejected, when the reason changes, and when writes succeed again."""
        if reason and reason != self._row_trouble:
            _log.warning("cannot write incident rows for Pinot", topic=self._rows.name, reason=reason)
        elif self._row_trouble and not reason:
            _log.info("writing incident rows for Pinot again", topic=self._rows.name)
        self._row_trouble = reason

    def _row(self, record: IncidentRecord) -> bytes:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, self._row_schema, row_of(row_of_incident(record)))
        return buffer.getvalue()


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
