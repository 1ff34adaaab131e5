"""Is everything at the destination that should be? Pure: compares contents, not only counts.

A topic's contents are a multiset of record digests by partition. What the source has more of is
missing, what the destination has more of is a duplicate (its digest is at the source) or foreign.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

Contents = Mapping[tuple[int, bytes], int]
"""How often each (partition, digest of key, value, headers and timestamp) occurs."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """One topic. `missing` + what arrived = `source_records`."""

    topic: str
    source_records: int
    destination_records: int
    missing: int
    duplicates: int
    foreign: int

    @property
    def is_complete(self) -> bool:
        """Every source record is at the destination, and nothing that does not belong there."""
        return self.missing == 0 and self.foreign == 0


def audit_topic(topic: str, source: Contents, destination: Contents) -> AuditResult:
    """Compare the two multisets."""
    here, there = Counter(source), Counter(destination)
    surplus = there - here
    duplicates = sum(count for key, count in surplus.items() if key in here)
    return AuditResult(
        topic=topic,
        source_records=here.total(),
        destination_records=there.total(),
        missing=(here - there).total(),
        duplicates=duplicates,
        foreign=surplus.total() - duplicates,
    )
