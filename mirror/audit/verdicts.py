"""Results of an audit: counts of records, and findings with their offsets. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

MOST_FINDINGS: Final = 20
"""Maximum number of findings per verdict that a partition lists. Counts are not limited."""


class Verdict(StrEnum):
    """Result of auditing a record or an event-time window."""

    COMPLETE = "complete"
    """Every source record is at the destination, or is absent for an expected reason."""
    LATE = "late"
    """Some source records are not copied yet."""
    UNKNOWN = "unknown"
    """The records could not be compared."""
    MISSING = "missing"
    """A source record that should be at the destination is missing."""
    DUPLICATED = "duplicated"
    """The destination has more copies of a record than the source."""
    ALTERED = "altered"
    """Key, value, headers, timestamp or order of a record differ."""
    FOREIGN = "foreign"
    """A record at the destination does not exist at the source."""

    @property
    def is_intact(self) -> bool:
        """Return whether the destination has every compared source record unchanged."""
        return self in (Verdict.COMPLETE, Verdict.DUPLICATED, Verdict.FOREIGN)


_BY_SEVERITY: Final = (
    Verdict.MISSING,
    Verdict.UNKNOWN,
    Verdict.ALTERED,
    Verdict.FOREIGN,
    Verdict.LATE,
    Verdict.DUPLICATED,
    Verdict.COMPLETE,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the most severe of several verdicts, or COMPLETE without verdicts."""
    return min(verdicts, key=_BY_SEVERITY.index, default=Verdict.COMPLETE)


@dataclass(frozen=True, slots=True)
class Finding:
    """A record that the audit reports, and the verdict on it.

    An offset of -1 means that the cluster lacks the record. `timestamp`: timestamp of the source record, or
    of the destination record if there is no source record. `what`: description of the difference, or an empty
    string.
    """

    verdict: Verdict
    source_offset: int
    target_offset: int
    timestamp: int
    what: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the finding as a JSON object."""
        return {
            "verdict": self.verdict.value,
            "source_offset": self.source_offset,
            "destination_offset": self.target_offset,
            "timestamp": self.timestamp,
            "what": self.what,
        }


@dataclass(slots=True)
class RecordCounts:
    """Numbers of audited records for each kind of result.

    `equal`: records that arrived unchanged. `reordered`: equal records that arrived out of order.
    `misplaced`: equal records that arrived in order, but not at the offset in the offset map.
    `target_compacted`: removed by compaction at the destination. `source_compacted`: removed by compaction at
    the source after the copy. `unrelated`: records of other producers in a shared destination topic.
    """

    equal: int = 0
    missing: int = 0
    duplicated: int = 0
    altered: int = 0
    foreign: int = 0
    reordered: int = 0
    misplaced: int = 0
    target_compacted: int = 0
    source_compacted: int = 0
    unrelated: int = 0

    def add(self, other: RecordCounts) -> None:
        """Add the counts of another offset range."""
        for count in fields(self):
            setattr(self, count.name, getattr(self, count.name) + getattr(other, count.name))

    def verdict(self, uncopied: int = 0, unjudged: int = 0) -> Verdict:
        """Return the most severe verdict that the counts imply.

        `uncopied`: number of additional missing records, which were never copied. `unjudged`: number of
        source offsets that are not copied yet.
        """
        found = {
            Verdict.MISSING: self.missing + uncopied,
            Verdict.ALTERED: self.altered + self.reordered,
            Verdict.FOREIGN: self.foreign,
            Verdict.LATE: unjudged,
            Verdict.DUPLICATED: self.duplicated,
        }
        return worst(verdict for verdict, count in found.items() if count)


@dataclass(slots=True)
class PartitionFindings:
    """Findings and record counts of one partition.

    `at_least`: True if there were too many differences to compare all of them. The counts of missing, altered
    and surplus records are then estimates.
    """

    counts: RecordCounts = field(default_factory=RecordCounts)
    findings: list[Finding] = field(default_factory=list)
    at_least: bool = False

    def note(self, finding: Finding) -> None:
        """Keep a finding, unless `MOST_FINDINGS` findings with its verdict are already kept."""
        if sum(known.verdict is finding.verdict for known in self.findings) < MOST_FINDINGS:
            self.findings.append(finding)
