"""Summaries of audits by datastream and topic, merged over all instances. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from mirror.audit.verdicts import Verdict
from mirror.jobs.audits.lanes import LaneAuditReport
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import TopicPartition

MOST_FAULTS: Final = 100
"""Maximum number of faults listed for a topic."""


@dataclass(frozen=True, slots=True)
class AuditFault:
    """Unexplained differences of one kind in a window of a partition. `source_offset`, `destination_offset`:
    offsets of the first affected record; -1 if a cluster lacks the record."""

    partition: int
    start_ms: int
    verdict: Verdict
    records: int
    source_offset: int
    destination_offset: int


@dataclass(frozen=True, slots=True)
class TopicAudit:
    """Audit of one topic of a datastream. `through_ms`: time before which all records are at the destination,
    by their timestamps; None if unknown. `waiting`: number of copied source offsets that are not yet audited.
    `faults`: the first `MOST_FAULTS` faults. `more_faults`: number of further faults. `problem`: reason why a
    partition could not be audited, empty if there is none. `late`: number of overdue source offsets, counted
    in the oldest such window of each partition."""

    datastream: DatastreamName
    topic: str
    partitions: int
    through_ms: int | None
    waiting: int
    faults: tuple[AuditFault, ...]
    more_faults: int
    problem: str
    late: int = 0

    @property
    def fault_records(self) -> Mapping[Verdict, int]:
        """Number of records in the listed faults, by verdict."""
        found = Counter[Verdict]()
        for fault in self.faults:
            found[fault.verdict] += fault.records
        return found


def topic_audits(
    reports: Mapping[DatastreamName, Mapping[TopicPartition, LaneAuditReport]],
) -> list[TopicAudit]:
    """Return the audits of an instance by datastream and topic."""
    return merged(
        TopicAudit(
            name,
            place.topic,
            1,
            one.through_ms,
            one.waiting,
            tuple(
                AuditFault(
                    place.partition,
                    fault.start_ms,
                    fault.verdict,
                    fault.records,
                    fault.source_offset,
                    fault.target_offset,
                )
                for fault in one.faults
            ),
            one.more_faults,
            one.problem,
            one.late,
        )
        for name, found in reports.items()
        for place, one in found.items()
    )


def merged(audits: Iterable[TopicAudit]) -> list[TopicAudit]:
    """Merge the audits of all partitions of each topic. Sort the result by datastream and topic."""
    by_topic = sorted(audits, key=_place_of)
    return [_sum(list(group)) for _, group in groupby(by_topic, _place_of)]


def through_of(audits: Iterable[TopicAudit]) -> int | None:
    """Return the time before which all records of all these topics are at the destination. Return None if
    this time is unknown for any topic."""
    found = [one.through_ms for one in audits]
    known = [through_ms for through_ms in found if through_ms is not None]
    return min(known) if known and len(known) == len(found) else None


def _place_of(one: TopicAudit) -> tuple[str, str]:
    return one.datastream, one.topic


def _sum(parts: list[TopicAudit]) -> TopicAudit:
    faults = sorted(
        (fault for one in parts for fault in one.faults), key=lambda one: (one.start_ms, one.partition)
    )
    return replace(
        parts[0],
        partitions=sum(one.partitions for one in parts),
        through_ms=through_of(parts),
        waiting=sum(one.waiting for one in parts),
        faults=tuple(faults[:MOST_FAULTS]),
        more_faults=sum(one.more_faults for one in parts) + max(len(faults) - MOST_FAULTS, 0),
        problem=next((one.problem for one in parts if one.problem), ""),
        late=sum(one.late for one in parts),
    )
