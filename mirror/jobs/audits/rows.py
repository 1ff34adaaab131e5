"""Audit rows, one for each event-time window, and the topic to which they are written."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

import fastavro

from mirror.audit.verdicts import Verdict, worst
from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange, partition_offsets, topic_partitions
from mirror.client.log_writer import write_patiently
from mirror.errors import AnswerTooLarge, Unreachable
from mirror.jobs.audits.record import OpenWindow
from mirror.model.audit_window import AuditWindow
from mirror.model.rows import avro_schema, row_of
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.partitioner import partitioned_batches
from mirror.protocol.batches.records import Record, read_batch
from mirror.protocol.control.offsets import LATEST

MIRROR_TIER: Final = "mirror"
"""Value of the `tier` column in rows that Headrace writes."""
RECORD_COLUMNS: Final = ("count", "missing", "duplicated", "altered", "foreign", "explained")
"""Columns of audit rows that count records."""
_APPLICATION: Final = "headrace"
_MOST_ROWS: Final = 1_000_000
_UNREADABLE: Final = (EOFError, ValueError, IndexError, struct.error)
_SCHEMA: Final = fastavro.parse_schema(avro_schema(AuditWindow))


class AuditOrigin(NamedTuple):
    """Column values that all audit rows of a slice share.

    `time_ms`: see `LaneAudit.row_ms`.
    """

    time_ms: int
    datastream: str
    host: str
    audit: str
    window_ms: int


def window_row(
    origin: AuditOrigin, place: TopicPartition, window: OpenWindow, ends: tuple[int, int], late: int
) -> AuditWindow:
    """Return the audit row of a window.

    `ends`: source and destination offsets after the audited records. `late`: number of overdue offsets in the
    window.
    """
    counts = window.counts
    key = f"{origin.datastream}/{place.topic}/{place.partition}/{window.start_ms}"
    verdict = worst([counts.verdict, Verdict.LATE if late else Verdict.COMPLETE])
    return AuditWindow(
        origin.time_ms,
        f"{key}/{window.source}" if window.is_part else key,
        origin.datastream,
        place.topic,
        place.partition,
        MIRROR_TIER,
        origin.host,
        _APPLICATION,
        window.start_ms,
        window.start_ms + origin.window_ms,
        origin.audit,
        verdict.value,
        counts.records,
        counts.missing,
        counts.duplicated,
        counts.altered,
        counts.foreign,
        counts.explained,
        window.source,
        ends[0],
        window.target,
        ends[1],
        json.dumps([finding.to_json() for finding in counts.findings], separators=(",", ":")),
        counts.stored_bytes,
        late,
    )


async def read_rows(cluster: Cluster, topic: str, since_ms: int) -> list[Mapping[str, Any]]:
    """Read the audit rows with a timestamp of at least `since_ms`. Rows that cannot be decoded are skipped.

    Raises TopicMissing, Unreachable, NotAuthorized, AnswerTooLarge.
    """
    places = await topic_partitions(cluster, topic)
    starts = await partition_offsets(cluster, places, since_ms)
    ends = await partition_offsets(cluster, places, LATEST)
    found: list[Mapping[str, Any]] = []
    for place in places:
        start, end = starts[place], ends[place]
        part = PartitionRange(cluster, place, start if start >= 0 else end, end)
        async for batch, header in part.batches():
            for record in read_batch(batch, header) if header is not None else ():
                with suppress(*_UNREADABLE):
                    row: Any = fastavro.schemaless_reader(io.BytesIO(record.value or b""), _SCHEMA, None)
                    found.append(row)
            if len(found) > _MOST_ROWS:
                raise AnswerTooLarge(
                    f"{topic} has more than {_MOST_ROWS} rows in this period",
                    advice="choose a later --from, or query the Pinot table auditWindows",
                )
    return found


async def write_rows(cluster: Cluster, topic: str, rows: Sequence[AuditWindow]) -> None:
    """Write audit rows with their ids as record keys, and wait for all replicas. Raises Unreachable if the
    topic does not exist yet; NotAuthorized."""
    known = cluster.topics.get(topic)
    if known is None or known.error or not known.leaders:
        await cluster.refresh([topic])
        known = cluster.topics[topic]
    if known.error or not known.leaders:
        raise Unreachable(f"topic {topic} of {cluster.name} does not exist yet, or has no leader")
    records: list[Record] = []
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, _SCHEMA, row_of(row))
        records.append(Record(0, row.time_ms, row.id.encode(), buffer.getvalue()))
    for place, batch in partitioned_batches(records, known.partitions):
        await write_patiently(cluster, place, write_batch(batch, Codec.LZ4))
