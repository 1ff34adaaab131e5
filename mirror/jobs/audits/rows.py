"""Rows of audited windows, and the topic to which they are written."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import fastavro

from mirror.audit.windows import WindowCounts
from mirror.client.cluster import Cluster
from mirror.client.log_writer import write_patiently
from mirror.errors import Unreachable
from mirror.jobs.partition_verdict import PartitionVerdict
from mirror.model.audit_window import AuditWindow
from mirror.model.rows import avro_schema, row_of
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.records import Record, write_batch

_TIER: Final = "mirror"
_APPLICATION: Final = "headrace"
_PER_BATCH: Final = 500
_SCHEMA: Final = fastavro.parse_schema(avro_schema(AuditWindow))


class AuditOrigin(NamedTuple):
    """Constant columns of the rows of one slice."""

    datastream: str
    host: str
    audit: str
    window_ms: int


def window_row(
    origin: AuditOrigin, verdict: PartitionVerdict, start_ms: int, counts: WindowCounts, now_ms: int
) -> AuditWindow:
    """Return the row of a window of an audited slice."""
    place, source, target = verdict.partition, verdict.source_range, verdict.target_range
    return AuditWindow(
        now_ms,
        f"{origin.datastream}/{place.topic}/{place.partition}/{source[0]}/{start_ms}",
        origin.datastream,
        place.topic,
        place.partition,
        _TIER,
        origin.host,
        _APPLICATION,
        start_ms,
        start_ms + origin.window_ms,
        origin.audit,
        counts.verdict.value,
        counts.records,
        counts.missing,
        counts.duplicated,
        counts.altered,
        counts.foreign,
        counts.explained,
        *source,
        *target,
        json.dumps([finding.to_json() for finding in counts.findings], separators=(",", ":")),
    )


async def write_rows(cluster: Cluster, topic: str, rows: Sequence[AuditWindow]) -> None:
    """Write rows until all replicas have them, keyed by their ids. Raises Unreachable if the topic does not
    exist yet, NotAuthorized."""
    known = cluster.topics.get(topic)
    if known is None or known.error or not known.leaders:
        await cluster.refresh([topic])
        known = cluster.topics[topic]
    if known.error or not known.leaders:
        raise Unreachable(f"topic {topic} of {cluster.name} does not exist yet, or has no leader")
    parts: dict[int, list[Record]] = {}
    for row in rows:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, _SCHEMA, row_of(row))
        key = row.id.encode()
        record = Record(0, row.time_ms, key, buffer.getvalue())
        parts.setdefault(zlib.crc32(key) % len(known.leaders), []).append(record)
    for number, records in parts.items():
        for first in range(0, len(records), _PER_BATCH):
            batch = write_batch(records[first : first + _PER_BATCH], Codec.LZ4)
            await write_patiently(cluster, TopicPartition(topic, number), batch)
