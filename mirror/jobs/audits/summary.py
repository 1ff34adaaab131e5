"""Merges the audits of all instances into one audit for each topic of a datastream. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from mirror.audit.verdicts import Verdict
from mirror.jobs.audits.lanes import LaneAuditReport
from mirror.model.datastreams.audit_mode import AuditMode
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.plan import Plan
from mirror.model.topics import TopicPartition

MOST_FAULTS: Final = 100
"""Maximum number of faults listed for a topic."""


@dataclass(frozen=True, slots=True)
class AuditFault:
    """Unexplained differences of one kind in one event-time window of a partition.

    `source_offset`, `destination_offset`: offsets of the first affected record on each cluster; -1 if that
    cluster lacks the record.
    """

    partition: int
    start_ms: int
    verdict: Verdict
    records: int
    source_offset: int
    destination_offset: int


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """Audit result of one topic of a datastream.

    `through_ms`: event time before which all records of the audited partitions are at the destination; None
    if unknown. `waiting`: number of copied source offsets that are not yet audited. `faults`: the first
    `MOST_FAULTS` faults. `more_faults`: number of further faults. `problem`: reason why a partition could not
    be audited, or an empty string. `late`: number of overdue source offsets, counted in the oldest affected
    window of each partition. `expected`: partition count of the source topic.
    """

    datastream: DatastreamName
    topic: str
    partitions: tuple[int, ...]
    through_ms: int | None
    waiting: int
    faults: tuple[AuditFault, ...]
    more_faults: int
    problem: str
    late: int = 0
    expected: int = 0

    @property
    def complete_through_ms(self) -> int | None:
        """Event time before which every record of the topic is at the destination. The value is None if
        unknown, for example while a partition has no owner."""
        return self.through_ms if set(self.partitions).issuperset(range(self.expected)) else None

    @property
    def fault_records(self) -> Mapping[Verdict, int]:
        """Map each verdict to the number of records in the listed faults."""
        found = Counter[Verdict]()
        for fault in self.faults:
            found[fault.verdict] += fault.records
        return found


def topic_audits(
    reports: Mapping[DatastreamName, Mapping[TopicPartition, LaneAuditReport]],
) -> list[TopicAudit]:
    """Merge the lane audits of one instance into one audit for each topic of a datastream."""
    return merged(
        TopicAudit(
            name,
            place.topic,
            (place.partition,),
            report.through_ms,
            report.waiting,
            tuple(
                AuditFault(
                    place.partition,
                    fault.start_ms,
                    fault.verdict,
                    fault.records,
                    fault.source_offset,
                    fault.target_offset,
                )
                for fault in report.faults
            ),
            report.more_faults,
            report.problem,
            report.late,
            report.topic_partitions,
        )
        for name, found in reports.items()
        for place, report in found.items()
    )


def merged(audits: Iterable[TopicAudit]) -> list[TopicAudit]:
    """Merge audits of partitions into one audit per topic, sorted by datastream and topic."""
    by_topic = sorted(audits, key=_place_of)
    return [_sum(list(group)) for _, group in groupby(by_topic, _place_of)]


def planned_audits(datastreams: Iterable[Datastream], plan: Plan) -> Iterator[TopicAudit]:
    """Yield an empty audit for each topic that should be audited. A topic is therefore complete only if an
    instance has audited its partitions."""
    for datastream in datastreams:
        if datastream.audit_mode is not AuditMode.OFF and datastream.status.is_mirrored:
            topics = {place.topic for place in plan.planned.get(datastream.group, ())}
            for topic in topics:
                if datastream.selection.matches(topic) and not plan.excludes(datastream.name, topic):
                    yield TopicAudit(datastream.name, topic, (), None, 0, (), 0, "")


def through_of(audits: Iterable[TopicAudit]) -> int | None:
    """Return the event time before which all records of all topics are at the destination, in epoch ms.

    Returns None if the time is unknown for any topic.
    """
    return _earliest([audit.complete_through_ms for audit in audits])


def _earliest(found: Sequence[int | None]) -> int | None:
    known = [through_ms for through_ms in found if through_ms is not None]
    return min(known) if known and len(known) == len(found) else None


def _place_of(audit: TopicAudit) -> tuple[str, str]:
    return audit.datastream, audit.topic


def _sum(parts: list[TopicAudit]) -> TopicAudit:
    faults = sorted(
        (fault for part in parts for fault in part.faults),
        key=lambda fault: (fault.start_ms, fault.partition),
    )
    return replace(
        parts[0],
        partitions=tuple(sorted({number for part in parts for number in part.partitions})),
        through_ms=_earliest([part.through_ms for part in parts if part.partitions]),
        waiting=sum(part.waiting for part in parts),
        faults=tuple(faults[:MOST_FAULTS]),
        more_faults=sum(part.more_faults for part in parts) + max(len(faults) - MOST_FAULTS, 0),
        problem=next((part.problem for part in parts if part.problem), ""),
        late=sum(part.late for part in parts),
        expected=max(part.expected for part in parts),
    )
