"""Sums the rows of audited windows, and compares them with counts from producers and consumers. Pure.

Producers and consumers write their counts as rows with the same schema, with their own tier and without a
datastream (docs/data-plane/audit-tiers.md).
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
    """Sums of a window over the partitions of a topic. `datastream`: empty if no audit has counted the
    window. `sums`: sum of each column. `tiers`: number of records that producers or consumers have counted,
    by tier."""

    datastream: str
    topic: str
    start_ms: int
    end_ms: int
    sums: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = Verdict.COMPLETE
    tiers: dict[str, int] = field(default_factory=dict)

    @property
    def differences(self) -> Mapping[str, int]:
        """Records counted by each tier minus records counted by the audit, for tiers with a difference."""
        count = self.sums["count"]
        return {tier: number - count for tier, number in self.tiers.items() if number != count}

    @property
    def is_complete(self) -> bool:
        """True if the window has no unexplained difference, and all tiers agree with the audit."""
        return self.verdict in _CLEAN and not self.sums["late"] and not self.differences

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
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
    """Return the newest row of each id."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["time_ms"] >= found.get(row["id"], row)["time_ms"]:
            found[row["id"]] = row
    return list(found.values())


def window_sums(rows: Iterable[Mapping[str, Any]], datastream: str | None = None) -> list[WindowSum]:
    """Return the sums of each topic and window, sorted. `datastream`: include only audits of this datastream;
    None includes all. The counts of producers and consumers are compared with the counts of each datastream.
    Raises ValueError for an unknown verdict."""
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
        same = [one for key, one in sums.items() if key[:2] == (topic, start_ms)]
        for one in same or [sums.setdefault((topic, start_ms, ""), WindowSum("", topic, start_ms, end_ms))]:
            one.tiers |= counted
    return [sums[key] for key in sorted(sums)]
