"""Audit results for each event-time window: additive counts, and findings with offsets. Pure.

A record belongs to the window `timestamp - timestamp mod window`, as in Kafka Audit and Chaperone. A record
without a timestamp belongs to the current window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Final

from mirror.audit.verdicts import Finding, Verdict, worst
from mirror.protocol.batches.records import Record

MOST_OFFSETS: Final = 5
"""Maximum number of findings per window."""


@dataclass(slots=True)
class WindowCounts:
    """Numbers of records in one event-time window, for each kind of result.

    `records`: records that arrived unchanged. `explained`: records that are missing or surplus for an
    expected reason, such as a filter or compaction. `stored_bytes`: stored size of the source records that
    were read, without batch headers. `findings`: the first differences.
    """

    records: int = 0
    missing: int = 0
    duplicated: int = 0
    altered: int = 0
    foreign: int = 0
    explained: int = 0
    stored_bytes: int = 0
    findings: list[Finding] = field(default_factory=list)

    def add(self, other: WindowCounts) -> None:
        """Add the counts of another part of the same window."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for finding in other.findings:
            self.note(finding)

    def note(self, finding: Finding) -> None:
        """Keep a finding, unless `MOST_OFFSETS` findings are already kept."""
        if len(self.findings) < MOST_OFFSETS:
            self.findings.append(finding)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(getattr(self, name) for name in COUNTED)

    @property
    def verdict(self) -> Verdict:
        """Return the most severe verdict of the records in the window."""
        differences = (Verdict.MISSING, Verdict.ALTERED, Verdict.FOREIGN, Verdict.DUPLICATED)
        return worst(verdict for verdict in differences if getattr(self, verdict.value))


COUNTED: Final = tuple(each.name for each in fields(WindowCounts) if each.name != "findings")


class WindowTally:
    """Maps the start of each event-time window (epoch ms) to its counts.

    `now_ms`: time assigned to records without a timestamp.
    """

    def __init__(self, length_ms: int, now_ms: int) -> None:
        self._length_ms = length_ms
        self._now_ms = now_ms
        self._uncopied: dict[int, int] = {}
        self.windows: dict[int, WindowCounts] = {}

    def start_of(self, timestamp: int) -> int:
        """Return the start of the window that contains a timestamp."""
        stamp = timestamp if timestamp >= 0 else self._now_ms
        return stamp - stamp % self._length_ms

    def count_payload(self, records: Sequence[Record], size: int) -> None:
        """Add `size`, the total size of the records in bytes, to their windows.

        Each record counts for an equal share.
        """
        passed = 0
        for start, number in Counter(self.start_of(record.timestamp) for record in records).items():
            share = size * (passed + number) // len(records) - size * passed // len(records)
            self._of(start).stored_bytes += share
            passed += number

    def is_one(self, first: int, last: int) -> bool:
        """Return whether the timestamps `first` and `last` belong to the same window."""
        return self.start_of(first) == self.start_of(last)

    def count(self, name: str, timestamp: int, number: int = 1) -> None:
        """Add records to one of the counts of their window.

        `name`: one of `COUNTED`.
        """
        found = self._of(self.start_of(timestamp))
        setattr(found, name, getattr(found, name) + number)

    def note(self, finding: Finding) -> None:
        """Count one finding in its window, and keep the finding unless the window already has enough."""
        self.count(finding.verdict.value, finding.timestamp)
        self._of(self.start_of(finding.timestamp)).note(finding)

    def leave_out(self, timestamp: int, number: int = 1) -> None:
        """Count source records that are missing in the offset map."""
        start = self.start_of(timestamp)
        self._uncopied[start] = self._uncopied.get(start, 0) + number

    def settle(self, missing: int) -> None:
        """Classify the source records that are missing in the offset map as missing or explained.

        `missing`: number of these records that count as missing. All others count as explained. Missing
        records cannot be identified, and are counted in the oldest windows.
        """
        for start, number in sorted(self._uncopied.items()):
            lost = min(number, missing)
            missing -= lost
            found = self._of(start)
            found.missing += lost
            found.explained += number - lost
        self._uncopied.clear()

    def _of(self, start: int) -> WindowCounts:
        return self.windows.setdefault(start, WindowCounts())
