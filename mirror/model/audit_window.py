"""Row of a continuous audit: record counts of one event-time window in one partition."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditWindow:
    """Counts of one event-time window in one partition, as known at `time_ms` (epoch ms).

    Of several rows with the same `id`, only the row with the largest `time_ms` is valid, because it includes
    the others. The counts of a window are the sums of its valid rows. `bucket_start_ms`, `bucket_end_ms`:
    start and end of the window. `tier`, `host`, `application`: origin of the counts, as in Kafka Audit; rows
    of Headrace contain `mirror`, the name of the instance, and `headrace`. `count`: records that arrived
    unchanged. `explained`: records that are missing or additional for a known reason. `audit`: `counts` or
    `full`; empty in rows of producers and consumers. `source_start` … `destination_end`: offset ranges of the
    records. `findings`: the first differences, as JSON. `payload_bytes`: size of the source records as
    stored, without batch headers; 0 if they were not read. `late`: number of source offsets that have waited
    to be copied for longer than the allowed lateness.
    """

    time_ms: int
    id: str
    datastream: str
    topic: str
    kafka_partition: int
    tier: str
    host: str
    application: str
    bucket_start_ms: int
    bucket_end_ms: int
    audit: str
    verdict: str
    count: int
    missing: int
    duplicated: int
    altered: int
    foreign: int
    explained: int
    source_start: int
    source_end: int
    destination_start: int
    destination_end: int
    findings: str
    payload_bytes: int
    late: int
