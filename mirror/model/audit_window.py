"""Rows of continuous audits: additive partial counts of windows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditWindow:
    """Records of one window of event time in one partition, as of `time_ms` (epoch ms).

    Of rows with the same `id`, the one with the largest `time_ms` counts: it includes the earlier ones. The
    remaining rows of a window are added up. `bucket_start_ms`, `bucket_end_ms`: the window. `tier`, `host`,
    `application`: who counted, as in Kafka Audit; rows of Headrace have the tier `mirror`, the name of the
    instance and `headrace`. `count`: records that arrived as they were; `explained`: absent or surplus ones
    for a reason that is no fault. `audit`: `counts` or `full`; empty in rows of producers and consumers. The
    offsets are those between which the records are. `findings` is JSON: the first differences.
    `payload_bytes`: size of the source records as stored, without batch headers; 0 if they were not read.
    `late`: source offsets that have waited for longer than the lateness.
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
