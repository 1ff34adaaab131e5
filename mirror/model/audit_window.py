"""Rows of continuous audits: additive partial counts of windows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AuditWindow:
    """Records of one window of event time that were audited together, at `time_ms` (epoch ms).

    The rows of a window are added up; of rows with the same `id` only the last counts, because an interrupted
    audit repeats its last part. `bucket_start_ms`, `bucket_end_ms`: the window. `tier`, `host`,
    `application`: origin of the counts, as in Kafka Audit; rows of Headrace have the tier `mirror`, the name
    of the instance and `headrace`. `count`: records that arrived unchanged; `explained`: records that are
    absent or surplus for a reason that is no fault. `audit`: `counts` or `full`. The offsets are those of the
    audited part; `findings` is JSON: the first differences.
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
