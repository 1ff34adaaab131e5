"""Produce lines of stdin, and publish how many records were produced by window of event time.

Headrace compares these counts with its own (docs/data-plane/audit-tiers.md). Needs confluent-kafka and
fastavro:

    python audited_producer.py SOURCE:9092 orders METRICS:9092 < lines
"""

from __future__ import annotations

import io
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import fastavro

WINDOW_MS = 600_000
"""Must be `mirror.audit.window_seconds` of Headrace."""
COLUMNS = {
    **{"time_ms": "long", "id": "string", "datastream": "string", "topic": "string"},
    **{"kafka_partition": "long", "tier": "string", "host": "string", "application": "string"},
    **{"bucket_start_ms": "long", "bucket_end_ms": "long", "audit": "string", "verdict": "string"},
    **{"count": "long", "missing": "long", "duplicated": "long", "altered": "long", "foreign": "long"},
    **{"explained": "long", "source_start": "long", "source_end": "long", "destination_start": "long"},
    **{"destination_end": "long", "findings": "string", "payload_bytes": "long", "late": "long"},
}
SCHEMA = {
    "type": "record",
    "name": "AuditWindow",
    "namespace": "headrace",
    "fields": [{"name": name, "type": kind} for name, kind in COLUMNS.items()],
}
_PARSED = fastavro.parse_schema(SCHEMA)


class TierCounts:
    """Records of one process by topic and window. Counts are cumulative: a row replaces the earlier ones with
    the same id, so rows can be sent again."""

    def __init__(self, tier: str, application: str) -> None:
        self._origin = {"tier": tier, "application": application, "host": socket.gethostname()}
        self._process = uuid4().hex
        self._counts: dict[tuple[str, int], int] = {}
        self._changed: set[tuple[str, int]] = set()

    def add(self, topic: str, timestamp_ms: int) -> None:
        """Count a record that the brokers have acknowledged."""
        key = topic, timestamp_ms - timestamp_ms % WINDOW_MS
        self._counts[key] = self._counts.get(key, 0) + 1
        self._changed.add(key)

    def rows(self, now_ms: int) -> Iterator[tuple[bytes, bytes]]:
        """Yield key and value of the row of each window that has changed."""
        for key in sorted(self._changed):
            topic, start_ms = key
            row: dict[str, Any] = {name: "" if kind == "string" else 0 for name, kind in COLUMNS.items()}
            row |= self._origin | {"time_ms": now_ms, "topic": topic, "kafka_partition": -1}
            row |= {"bucket_start_ms": start_ms, "bucket_end_ms": start_ms + WINDOW_MS}
            row |= {"id": f"{self._process}/{topic}/{start_ms}", "count": self._counts[key]}
            row["findings"] = "[]"
            buffer = io.BytesIO()
            fastavro.schemaless_writer(buffer, _PARSED, row)
            yield row["id"].encode(), buffer.getvalue()
        self._changed.clear()


def main(source: str, topic: str, metrics: str, windows_topic: str = "headrace-audit-windows") -> None:
    """Produce the lines of stdin to a topic, and their counts once a minute and at the end."""
    from confluent_kafka import Producer

    counts = TierCounts("producer", "audited-producer")
    producer = Producer({"bootstrap.servers": source, "enable.idempotence": True})
    publisher = Producer({"bootstrap.servers": metrics})

    def publish() -> None:
        for key, value in counts.rows(time.time_ns() // 1_000_000):
            publisher.produce(windows_topic, value, key)
        publisher.flush()

    def acknowledged(error: object, message: Any) -> None:
        if error is None:
            counts.add(topic, message.timestamp()[1])

    due = time.monotonic() + 60
    for line in sys.stdin:
        producer.produce(topic, line.rstrip("\n").encode(), on_delivery=acknowledged)
        producer.poll(0)
        if time.monotonic() > due:
            publish()
            due = time.monotonic() + 60
    producer.flush()
    publish()


if __name__ == "__main__":
    main(*sys.argv[1:])
