"""Table of situations on docs/operate/signals.md: its rows, and how snapshots become rows."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.tables import markdown, replace_between, text_between

PAGE: Final = Path(__file__).parents[1] / "docs/operate/signals.md"
BEGIN: Final = "<!-- situations: written by the test of that name -->"
END: Final = "<!-- end of situations -->"
HEADER: Final = (
    "situation",
    "shown after",
    "`/v1/health`",
    "`/v1/lanes`",
    "`/metrics`",
    "events",
    "`headrace datastream get`",
    "verdict of the monitor, based on these lanes and not on Pinot",
)

TOPICS: Final = (
    "a partition is paused by an operator",
    "a datastream is paused by an operator",
    "partitions have no task",
    "no topic matches",
    "the destination refuses a record",
    "the source topic was deleted and created again",
    "the destination topic was deleted",
    "a quota of Headrace throttles the datastream",
)
SERVERS: Final = (
    "a quota of the source's brokers throttles the datastream",
    "a quota of the destination's brokers throttles the datastream",
    "the source topic may not be described",
    "the source topic may not be read",
    "the destination topic may not be written",
    "the source is frozen",
    "the source is dead",
    "the destination is frozen",
    "the destination is dead",
    "a disk of the destination has failed",
)
SLOW: Final = ("the source is slow", "the destination is slow")
PROCESSES: Final = (
    "ZooKeeper is frozen",
    "ZooKeeper is dead",
    "ZooKeeper is slow",
    "a worker process is frozen",
    "a worker process was killed",
    "another instance froze, and its session expired",
    "the leader was killed, and another instance leads",
)
LOADS: Final = ("Pinot is frozen", "Pinot is slow", "Pinot is dead")
SITUATIONS: Final = (*TOPICS, *SERVERS, *SLOW, *PROCESSES, *LOADS)
"""Situations that tests produce, in the order of the table; each group is a separate test."""

_GAUGES: Final = (
    "headrace_datastream_problem",
    "headrace_datastream_remark",
    "headrace_paused_partitions",
    "headrace_unplaced_partitions",
    "headrace_left_out_partitions",
    "headrace_held_back_lanes",
    "headrace_part_healthy",
    "headrace_loads",
)
_REMARKS: Final = ("paused by people", "coordination session")
"""Parts that exist only if they have something to report."""
_SLOW_ANSWER: Final = " s to say so"
_LOADS_AWAY: Final = frozenset({"stale", "unavailable"})


@dataclass(frozen=True)
class Snapshot:
    """Reports of all sources at one time. `events`: kinds of events since the situation began.

    `standing`: judgement of the monitor. `seconds`: time since the situation began.
    """

    status: int
    parts: Mapping[str, Mapping[str, Any]]
    lanes: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, float]
    events: Sequence[str]
    datastream: Mapping[str, Any]
    standing: str
    seconds: float

    @property
    def ill(self) -> list[str]:
        """Unhealthy parts."""
        return sorted(name for name, part in self.parts.items() if not part["is_well"])

    def row(self, situation: str) -> tuple[str, ...]:
        """Return the row of the table, without names of datastreams and clusters."""
        return (
            situation,
            f"{math.ceil(self.seconds)} s",
            _plain([f"{self.status}", *(f"`{name}`" for name in self._named())]),
            _plain(_lane(lane) for lane in self.lanes),
            _plain(self._gauges()),
            _plain(self.events),
            _plain(self._shown()),
            self.standing,
        )

    def _named(self) -> list[str]:
        name = str(self.datastream.get("name", ""))
        said = self.ill or [part for part in self.parts if self._is_remark(part)]
        return [part.replace(name, "…") if name else part for part in said]

    def _is_remark(self, part: str) -> bool:
        return part in _REMARKS or self.parts[part]["sentence"].endswith(_SLOW_ANSWER)

    def _gauges(self) -> Iterable[str]:
        for series, value in self.metrics.items():
            name, _, labels = series.partition("{")
            if name not in _GAUGES or (value == 0) is not (name == "headrace_part_healthy"):
                continue
            by = re.search(r'by="(\w+)"', labels)
            part = re.search(r'part="([a-z]+)', labels)
            state = re.search(r'state="(\w+)"', labels)
            if state and state[1] not in _LOADS_AWAY:
                continue
            more = f'by="{by[1]}"' if by else f'part="{part[1]} …"' if part else state[0] if state else ""
            yield f"`{name}{{{more}}}`" if more else f"`{name}`"

    def _shown(self) -> Iterable[str]:
        if "status" not in self.datastream:
            yield "no answer"
            return
        yield str(self.datastream["status"])
        if "as_of_ms" in self.datastream:
            yield "as of before"
        problem = self.datastream.get("problem")
        if problem:
            yield "problem" if problem["sets_aside"] else "warning"
        if self.datastream.get("halt"):
            yield "halt"
        if self.datastream.get("pauses"):
            yield "pauses"


def _lane(lane: Mapping[str, Any]) -> str:
    lag = lane["lag_records"]
    behind = "unknown" if lag is None else "0" if lag == 0 else "above 0"
    by = f" by `{lane['by']}`" if lane["by"] else ""
    return f"{lane['phase']}{by}, lag {behind}"


def _plain(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(texts)) or "nothing"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return the table in Markdown."""
    return markdown(HEADER, rows)


def write(rows: Iterable[Sequence[str]], page: Path = PAGE) -> None:
    """Update these rows in the table between the markers."""
    known = {row[0]: row for row in (*_rows_on(page), *rows)}
    all_rows = [known[situation] for situation in SITUATIONS if situation in known]
    replace_between(page, BEGIN, END, table(all_rows))


def situations_on(page: Path = PAGE) -> list[str]:
    """Return the first column of the table on the page."""
    return [row[0] for row in _rows_on(page)]


def _rows_on(page: Path) -> list[tuple[str, ...]]:
    lines = [line for line in text_between(page, BEGIN, END).splitlines() if line.startswith("| ")]
    return [tuple(line.removeprefix("| ").removesuffix(" |").split(" | ")) for line in lines[2:]]
