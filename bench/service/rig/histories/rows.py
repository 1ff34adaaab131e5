"""Rows of the table: the observations of each fault, compared with the expected ones. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.service.rig.histories.pages import Page
from bench.tables import markdown

HEADER: Final = (
    "fault",
    "first page after",
    "pages (of)",
    "warnings",
    "alert",
    "recorded causes",
    "action",
    "recovered after (reported)",
    "entries",
    "reported bad seconds (true)",
    "verdict",
)
_LATE_PAGE_SECONDS: Final = 3.0
"""Time that a page takes from the decision to the receiver."""
_MOST_APART: Final = 12.0
"""Tolerated error of bad seconds: a cycle of the monitor, a report, and a part of the window."""
_SHARE_APART: Final = 0.35
OK: Final = "ok"


@dataclass(frozen=True)
class Expected:
    """Observations that are expected of a fault. `pages`: maximum number of pages; `causes`: causes allowed
    in an incident."""

    name: str
    pages: int
    causes: frozenset[str]
    is_exempt: bool


@dataclass(frozen=True)
class Seen:
    """Observations of a fault. Times are epoch seconds. `recovered`: end of the last interval in which
    records were late, or None; `bad`: late seconds of each datastream. `unrest`: remaining deviation."""

    began: float
    recovered: float | None
    pages: Sequence[Page]
    incidents: Sequence[Mapping[str, Any]]
    bad: Mapping[str, float]
    unrest: str = ""

    @property
    def critical(self) -> list[Page]:
        """New critical alerts."""
        return [page for page in self.pages if page.is_critical]

    def told(self, name: str) -> float:
        """Return the seconds with late records that a datastream's incidents contain."""
        return sum(
            float(incident["bad_seconds"]) for incident in self.incidents if incident["datastream"] == name
        )


def problems(expected: Expected, seen: Seen) -> list[str]:
    """Return the differences between the observations and the expectation."""
    found = []
    if len(seen.critical) > expected.pages:
        found.append(f"{len(seen.critical)} pages")
    ended = seen.recovered if seen.recovered is not None else seen.began
    late = [one for one in seen.critical if one.at > ended + _LATE_PAGE_SECONDS]
    if late:
        found.append(f"page {late[0].at - ended:.0f} s after recovery")
    wrong = {incident["cause"] or "none" for incident in seen.incidents} - expected.causes
    if wrong:
        found.append(f"cause {', '.join(sorted(wrong))}")
    for name, true in seen.bad.items():
        text, counted = seen.told(name), 0.0 if expected.is_exempt else true
        if abs(text - counted) > max(_MOST_APART, _SHARE_APART * counted):
            found.append(f"{name}: {text:.0f} bad seconds, {counted:.0f} true")
    if seen.unrest:
        found.append(seen.unrest)
    return found


def row(expected: Expected, seen: Seen) -> tuple[str, ...]:
    """Return the cells of a fault."""
    pages, incidents = seen.critical, seen.incidents
    first = f"{pages[0].at - seen.began:.0f} s" if pages else "-"
    warnings = [page for page in seen.pages if page.is_firing and not page.is_critical]
    names = dict.fromkeys(one.name.removeprefix("Headrace") for one in [*pages, *warnings])
    causes = sorted({incident["cause"] or "none" for incident in incidents})
    actions = sorted(
        {entry["phase"] for incident in incidents for entry in incident["timeline"]} & {"acted", "decided"}
    )
    entries = max((len(incident["timeline"]) for incident in incidents), default=0)
    text, true = sum(map(seen.told, seen.bad)), sum(seen.bad.values())
    return (
        expected.name,
        first,
        f"{len(pages)} ({expected.pages})",
        str(len(warnings)),
        ", ".join(names) or "-",
        ", ".join(causes) or "-",
        ", ".join(actions) or "-",
        _recovery(seen),
        f"{entries} of {len(incidents)}",
        f"{text:.0f} ({true:.0f}{' exempt' if expected.is_exempt else ''})",
        "; ".join(problems(expected, seen)) or OK,
    )


def _recovery(seen: Seen) -> str:
    true = "-" if seen.recovered is None else f"{seen.recovered - seen.began:.0f} s"
    times = [
        entry["time_ms"] / 1000 - seen.began
        for incident in seen.incidents
        for entry in incident["timeline"]
        if entry["phase"] == "recovered"
    ]
    return f"{true} ({f'{max(times):.0f} s' if times else '-'})"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    return markdown(HEADER, rows)
