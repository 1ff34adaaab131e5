"""Adds up audit rows of each window, and compares the sums with the counts of producers and consumers. Pure.

Producers and consumers write rows with the same schema. Rows of clients have their own tier and no datastream
(docs/data-plane/audit-tiers.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror.audit.verdicts import Verdict, worst
from mirror.jobs.audits.rows import MIRROR_TIER, RECORD_COLUMNS

_SUMMED: Final = (*RECORD_COLUMNS, "payload_bytes", "late")
_CLEAN: Final = frozenset({Verdict.COMPLETE, Verdict.DUPLICATED, Verdict.LATE})


@dataclass
class WindowSum:
    """Sums over the partitions of a topic in one event-time window.

    `datastream`: empty if no audit has counted the window. `sums`: sum of each column. `tiers`: number of
    records counted by producers or consumers, by tier.
    """

    datastream: str
    topic: str
    start_ms: int
    end_ms: int
    sums: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = Verdict.COMPLETE
    tiers: dict[str, int] = field(default_factory=dict)

    @property
    def differences(self) -> Mapping[str, int]:
        """Return the count of each tier minus the count of the audit. Equal counts are omitted."""
        count = self.sums["count"]
        return {tier: number - count for tier, number in self.tiers.items() if number != count}

    @property
    def is_complete(self) -> bool:
        """Return whether the window has no unexplained difference, and all tiers agree with the audit."""
        return self.verdict in _CLEAN and not self.sums["late"] and not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return the sums of the window as a JSON object."""
        return {
            **{"datastream": self.datastream, "topic": self.topic},
            **{"start_ms": self.start_ms, "end_ms": self.end_ms},
            **{name: self.sums[name] for name in _SUMMED},
            "tiers": dict(self.tiers),
            "verdict": self.verdict.value,
            "differences": dict(self.differences),
            "complete": self.is_complete,
        }


def newest_rows(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return only the newest of the audit rows with the same id."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["time_ms"] >= found.get(row["id"], row)["time_ms"]:
            found[row["id"]] = row
    return list(found.values())


def window_sums(rows: Iterable[Mapping[str, Any]], datastream: str | None = None) -> list[WindowSum]:
    """Return the sums for each topic and window, sorted. Raises ValueError for an unknown verdict.

    `datastream`: include only audits of this datastream; None includes all. The counts of producers and
    consumers are compared with the counts of each datastream.
    """
    sums: dict[tuple[str, int, str], WindowSum] = {}
    tiers: dict[tuple[str, int, int], dict[str, int]] = {}
    for row in newest_rows(rows):
        topic, start_ms, end_ms = row["topic"], row["bucket_start_ms"], row["bucket_end_ms"]
        if row["tier"] != MIRROR_TIER:
            counted = tiers.setdefault((topic, start_ms, end_ms), {})
            counted[row["tier"]] = counted.get(row["tier"], 0) + row["count"]
        elif datastream in (None, row["datastream"]):
            key = topic, start_ms, row["datastream"]
            found = sums.setdefault(key, WindowSum(row["datastream"], topic, start_ms, end_ms))
            found.sums.update({name: row[name] for name in _SUMMED})
            found.verdict = worst([found.verdict, Verdict(row["verdict"])])
    for (topic, start_ms, end_ms), counted in tiers.items():
        same = [window for key, window in sums.items() if key[:2] == (topic, start_ms)]
        for window in same or [
            sums.setdefault((topic, start_ms, ""), WindowSum("", topic, start_ms, end_ms))
        ]:
            window.tiers |= counted
    return [sums[key] for key in sorted(sums)]
