"""Lanes to audit, audit options, slices and reports."""

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
    """Options of all audits of an instance: limits, and the topic to which audit rows are written.

    `rows_cluster`, `rows_topic`: cluster and topic to which audit rows are written; no rows are written if
    the topic is empty. `lateness_ms`: maximum time between the timestamp of a record and its arrival at the
    source.
    """

    instance: str
    rows_cluster: ClusterRef
    rows_topic: str
    window_ms: int
    lateness_ms: int
    bytes_per_second: int


@dataclass(frozen=True, slots=True)
class AuditedLanes:
    """Lanes of one datastream that this instance audits. `lateness_ms`: overrides `AuditOptions.lateness_ms`
    unless None. `may_repeat`, `has_markers`: see `CountRules`."""

    name: DatastreamName
    job: VerifyJob
    mode: AuditMode
    places: Sequence[TopicPartition]
    lateness_ms: int | None = None
    may_repeat: bool = False
    has_markers: bool = False


class AuditSlice(NamedTuple):
    """A range of source offsets [start, end) that is audited in one step.

    `timestamp`: timestamp of the first record. `is_last`: no later record has been copied yet.
    """

    start: int
    end: int
    reads: bool
    timestamp: int
    is_last: bool


class LaneAuditReport(NamedTuple):
    """Report on the audit of one lane.

    `through_ms`: event time before which all records are at the destination; None if unknown. `waiting`:
    number of copied source offsets that are not yet audited. `late`: number of overdue source offsets in the
    oldest window with overdue records. `problem`: error of the last run, empty if the run succeeded.
    `topic_partitions`: partition count of the source topic.
    """

    through_ms: int | None
    waiting: int
    late: int
    faults: tuple[WindowFault, ...]
    more_faults: int
    problem: str = ""
    topic_partitions: int = 0
