"""Lanes to audit, the options of their audits, and reports on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mirror.jobs.audits.record import WindowFault
from mirror.jobs.verify_job import VerifyJob
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of all audits of an instance. `rows_cluster`, `rows_topic`: cluster and topic for the rows; if
    the topic is empty, no rows are written. `lateness_ms`: maximum time between a record's timestamp and its
    arrival at the source."""

    instance: str
    rows_cluster: ClusterRef
    rows_topic: str
    window_ms: int
    lateness_ms: int
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class AuditedLanes:
    """Lanes of one datastream on this instance. `lateness_ms`: overrides `AuditOptions.lateness_ms`, unless
    None. `may_repeat`, `has_markers`: see `CountRules`."""

    name: DatastreamName
    job: VerifyJob
    mode: AuditMode
    places: Sequence[TopicPartition]
    lateness_ms: int | None = None
    may_repeat: bool = False
    has_markers: bool = False


class LaneAuditReport(NamedTuple):
    """State of the audit of one lane. `through_ms`: time before which all records are at the destination, by
    their timestamps; None if unknown. `waiting`: number of source offsets that are copied but not yet
    audited. `late`: number of overdue source offsets in the oldest window that has any. `problem`: error of
    the last run, empty if it succeeded. `topic_partitions`: number of partitions of the source topic."""

    through_ms: int | None
    waiting: int
    late: int
    faults: tuple[WindowFault, ...]
    more_faults: int
    problem: str = ""
    topic_partitions: int = 0
