"""Sums of the rows of audited windows, beside the counts that producers and consumers publish. Pure.

Producers and consumers write rows of the same form, with a tier of their own and without a datastream
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
    """Sums of a window over the partitions of a topic. `datastream`: empty if no audit has counted the
    window. `sums`: by column. `tiers`: records that producers and consumers counted, by tier."""

    datastream: str
    topic: str
    start_ms: int
    end_ms: int
    sums: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = Verdict.COMPLETE
    tiers: dict[str, int] = field(default_factory=dict)

    @property
    def differences(self) -> Mapping[str, int]:
        """Records that a tier has counted in addition to those that arrived, by tier; negative: too few."""
        count = self.sums["count"]
        return {tier: number - count for tier, number in self.tiers.items() if number != count}

    @property
    def is_complete(self) -> bool:
        """True if nothing differs without an explanation, and all tiers have counted the same."""
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
    """Return the rows that count: of those with the same id, the newest."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        if row["time_ms"] >= found.get(row["id"], row)["time_ms"]:
            found[row["id"]] = row
    return list(found.values())


def window_sums(rows: Iterable[Mapping[str, Any]], datastream: str | None = None) -> list[WindowSum]:
    """Return the sums of each topic and window, in order. `datastream`: only its audits; the counts of the
    other tiers are compared with each datastream. Raises ValueError for an unknown verdict."""
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
