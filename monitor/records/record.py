"""One incident and its timeline, as it is stored. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mirror.errors import DamagedState, legible

VERSION: Final = 1
NOTES: Final = "alerts/"
"""Begins the ids of what is no incident; no incident's does, as no datastream's name has a slash."""
_MOST_ENTRIES: Final = 100


class Phase(StrEnum):
    """What an entry of a timeline is about."""

    DETECTED = "detected"
    ACTED = "acted"
    RECOVERED = "recovered"
    RELAPSED = "relapsed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Something that happened, at epoch milliseconds."""

    time_ms: int
    phase: Phase
    text: str


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """One incident. `worst_ms`: the highest value of the objective's percentile that was seen; None where
    nothing arrived. `left_out`: entries in the middle of the timeline that are not kept."""

    id: str
    datastream: str
    cluster: str
    opened_ms: int
    closed_ms: int | None = None
    worst_ms: float | None = None
    timeline: tuple[TimelineEntry, ...] = ()
    left_out: int = 0

    @property
    def is_open(self) -> bool:
        """Whether it is not over."""
        return self.closed_ms is None

    def last(self, *phases: Phase) -> TimelineEntry | None:
        """The newest entry of these phases."""
        return next((one for one in reversed(self.timeline) if one.phase in phases), None)

    def noted(self, time_ms: int, phase: Phase, text: str) -> IncidentRecord:
        """With one more entry. Of a long timeline the first entry and the newest ones are kept."""
        entries = (*self.timeline, TimelineEntry(time_ms, phase, legible(text)))
        if len(entries) > _MOST_ENTRIES:
            return replace(self, timeline=(entries[0], *entries[2:]), left_out=self.left_out + 1)
        return replace(self, timeline=entries)


class Stored(NamedTuple):
    """What outlives a monitor: incidents, and by its id what else is kept beside them as it is."""

    records: Sequence[IncidentRecord] = ()
    notes: Mapping[str, bytes] = {}


def record_to_json(record: IncidentRecord) -> bytes:
    """As a value of the topic."""
    return json.dumps({"version": VERSION, **asdict(record)}).encode()


def record_from_json(value: bytes) -> IncidentRecord:
    """Fields of a later version are ignored. Raises DamagedState."""
    try:
        found: dict[str, Any] = json.loads(value)
        entries = [
            TimelineEntry(int(one["time_ms"]), Phase(one["phase"]), str(one["text"]))
            for one in found["timeline"]
        ]
        closed_ms, worst_ms = found["closed_ms"], found["worst_ms"]
        return IncidentRecord(
            str(found["id"]),
            str(found["datastream"]),
            str(found["cluster"]),
            int(found["opened_ms"]),
            None if closed_ms is None else int(closed_ms),
            None if worst_ms is None else float(worst_ms),
            tuple(entries),
            int(found["left_out"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedState(f"no incident: {value[:100]!r}") from error
