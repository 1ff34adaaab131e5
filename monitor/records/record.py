"""Record of an incident and its timeline, in the form in which it is stored. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mirror.errors import DamagedState, InvalidRequest
from mirror.model import bounds
from mirror.model.reasons import legible
from mirror.wording import clock_text, exact_duration_text

VERSION: Final = 1
NOTES: Final = "alerts/"
"""Prefix of the ids of notes. Ids of incidents never have this prefix, because names of datastreams contain
no slash."""
_MOST_ENTRIES: Final = 100
_MOST: Final = 2**63 - 1
"""Largest integer that Avro and Pinot can store."""
_LIMIT: Final = re.compile(r"(?<=within )[0-9]{1,15} ms\b")
_LONGEST_ID: Final = 2 * bounds.LONGEST_NAME
UNREADABLE: Final = (
    InvalidRequest,
    ValueError,
    OverflowError,
    RecursionError,
    LookupError,
    TypeError,
    AttributeError,
)
"""Exceptions that parsing a damaged record may raise."""


class Phase(StrEnum):
    """Phase of an incident to which an entry of its timeline belongs, such as its detection."""

    DETECTED = "detected"
    CLASSIFIED = "classified"
    """A cause was found or changed, or a further problem was found."""
    ACTED = "acted"
    """A rebalance was requested."""
    DECIDED = "decided"
    """The monitor decided not to request a rebalance; the text contains the reason."""
    RECOVERED = "recovered"
    RELAPSED = "relapsed"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """Entry in the timeline of an incident: an event at `time_ms` (epoch ms).

    `times`: number of occurrences. If there are several, `time_ms` is the last and `first_ms` the first
    occurrence.
    """

    time_ms: int
    phase: Phase
    text: str
    times: int = 1
    first_ms: int | None = None

    @property
    def text_with_times(self) -> str:
        """Text of the entry; if the event has occurred several times, with their number and the first
        time."""
        if self.times < 2 or self.first_ms is None:
            return self.text
        return f"{self.text} ({self.times} times since {clock_text(self.first_ms)})"

    def is_repeated_by(self, phase: Phase, text: str) -> bool:
        """Return whether a new entry would be equal to this one, except for numbers in its text."""
        if phase is not self.phase or phase in _ONCE:
            return False
        return phase in _STATES or self.has_same_text(text)

    def has_same_text(self, text: str) -> bool:
        """Return whether the text is equal to that of this entry, except for numbers."""
        return _shape_of(legible(text)) == _shape_of(self.text)


def _shape_of(text: str) -> str:
    return _FIGURE.sub("#", text)


_FIGURE: Final = re.compile(r"\d[\d.,]*")
_ONCE: Final = frozenset({Phase.DETECTED, Phase.CLOSED, Phase.ACTED})
_STATES: Final = frozenset({Phase.RECOVERED, Phase.RELAPSED})


@dataclass(frozen=True, slots=True)
class BudgetCost:
    """Error budget of one objective that was left before and during an incident.

    `before`: when the incident was detected. `now`: at the last evaluation. None if unknown.
    """

    objective: str
    before: float | None
    now: float | None

    @property
    def spent(self) -> float | None:
        """Share of the error budget spent during the incident. The value is 0 if the budget has grown because
        older breaches left the period."""
        return None if self.before is None or self.now is None else max(self.before - self.now, 0.0)


@dataclass(frozen=True, slots=True)
class DeliveryCost:
    """Number of records that arrived during an incident, and how many missed one objective. `late`: number of
    late records, interpolated from a histogram and therefore not an integer."""

    objective: str
    records: int
    late: float


@dataclass(frozen=True, slots=True)
class RebalanceGain:
    """Predicted and actual saving of the first rebalance of an incident, in seconds of breach after
    `acted_ms`.

    None if unknown. `left`: predicted remaining time of the breach without the rebalance. `predicted`:
    predicted saving. `lasted`: actual remaining time of the breach.
    """

    acted_ms: int
    left: float | None
    predicted: float | None
    lasted: float | None = None

    @property
    def saved(self) -> float | None:
        """Seconds saved compared with past breaches without a rebalance. Negative if this breach lasted
        longer."""
        return None if self.left is None or self.lasted is None else self.left - self.lasted


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """Record of one incident of a datastream.

    `worst_ms`: highest observed value of the objective's percentile; None if no records arrived. `left_out`:
    number of entries dropped from the middle of the timeline. `is_late`: whether an objective is missed now.
    `matters`: names of the alerts of all other problems so far. `causes`: bad seconds of each cause; `cause`:
    cause with the most bad seconds; `evidence`: latest figures of that cause. `bad_seconds`: time during
    which an objective was missed or records waited; `unknown_seconds`: unobserved time. `judged_ms`: end of
    the time that `bad_seconds` and `unknown_seconds` cover. `costs`: cost in error budgets. `gain`: None if
    no rebalance was requested. `deliveries`: arrived and late records for each objective, counted after the
    incident has closed; None if unknown or not counted yet. `closing_ms`: time at which a recovered incident
    closes if there is no relapse; None for other incidents.
    """

    id: str
    datastream: str
    cluster: str
    opened_ms: int
    closed_ms: int | None = None
    worst_ms: float | None = None
    timeline: tuple[TimelineEntry, ...] = ()
    left_out: int = 0
    is_late: bool = True
    matters: tuple[str, ...] = ()
    cause: str = ""
    evidence: Mapping[str, float | str] = field(default_factory=dict)
    bad_seconds: float = 0.0
    unknown_seconds: float = 0.0
    judged_ms: int = 0
    costs: tuple[BudgetCost, ...] = ()
    gain: RebalanceGain | None = None
    deliveries: tuple[DeliveryCost, ...] | None = None
    causes: Mapping[str, float] = field(default_factory=dict)
    closing_ms: int | None = None

    @property
    def is_open(self) -> bool:
        """True until the incident closes."""
        return self.closed_ms is None

    def last(self, *phases: Phase) -> TimelineEntry | None:
        """Return the latest timeline entry in one of these phases; None if there is none."""
        return next((entry for entry in reversed(self.timeline) if entry.phase in phases), None)

    def noted(self, time_ms: int, phase: Phase, text: str) -> IncidentRecord:
        """Return the record with one more timeline entry, which replaces an entry that it repeats. A long
        timeline keeps its first entry and the latest entries."""
        entry, entries = TimelineEntry(time_ms, phase, legible(text)), self.timeline
        for known in entries:
            if known.is_repeated_by(phase, entry.text):
                since_ms = known.time_ms if known.first_ms is None else known.first_ms
                entry = replace(entry, times=known.times + 1, first_ms=since_ms)
                entries = tuple(other for other in entries if other is not known)
                break
        entries = (*entries, entry)
        if len(entries) > _MOST_ENTRIES:
            return replace(self, timeline=(entries[0], *entries[2:]), left_out=self.left_out + 1)
        return replace(self, timeline=entries)


_PHASES: Final = frozenset(Phase)


class StoredMonitorState(NamedTuple):
    """Stored state of a monitor: incidents, and notes by id, whose content this module does not interpret."""

    records: Sequence[IncidentRecord] = ()
    notes: Mapping[str, bytes] = {}


def record_to_json(record: IncidentRecord) -> bytes:
    """Serialize an incident record as a value of the topic."""
    return json.dumps({"version": VERSION, **asdict(record)}).encode()


def record_from_json(value: bytes) -> IncidentRecord:
    """Parse an incident record of the topic. Raises DamagedState.

    Fields and phases of later versions are ignored. Fields that earlier versions lack get defaults.
    """
    try:
        found: dict[str, Any] = json.loads(value)
        entries = [
            TimelineEntry(
                moment_of(entry["time_ms"]),
                Phase(entry["phase"]),
                _text(entry["text"]),
                _count(entry.get("times", 1)),
                None if entry.get("first_ms") is None else moment_of(entry["first_ms"]),
            )
            for entry in found["timeline"]
            if entry["phase"] in _PHASES
        ]
        closed_ms = found["closed_ms"]
        return IncidentRecord(
            bounds.line("an id", found["id"], _LONGEST_ID),
            bounds.line("a datastream", found["datastream"]),
            _text(found["cluster"]),
            moment_of(found["opened_ms"]),
            None if closed_ms is None else moment_of(closed_ms),
            _number(found["worst_ms"]),
            tuple(entries),
            _count(found["left_out"]),
            bool(found.get("is_late", True)),
            tuple(_text(name) for name in found.get("matters", ())),
            _text(found.get("cause", "")),
            {_text(name): _value(value_found) for name, value_found in found.get("evidence", {}).items()},
            _finite(found.get("bad_seconds", 0.0)),
            _finite(found.get("unknown_seconds", 0.0)),
            moment_of(found.get("judged_ms", 0)),
            tuple(
                BudgetCost(_objective(cost["objective"]), _number(cost["before"]), _number(cost["now"]))
                for cost in found.get("costs", ())
            ),
            _gain(found.get("gain")),
            _deliveries(found.get("deliveries")),
            {_text(name): _finite(seconds) for name, seconds in found.get("causes", {}).items()},
            None if found.get("closing_ms") is None else moment_of(found["closing_ms"]),
        )
    except UNREADABLE as error:
        raise DamagedState(f"cannot parse stored incident: {value[:100]!r}") from error


def _objective(found: Any) -> str:
    """Return the objective's name in a record. Earlier versions stored the limit in milliseconds, which is
    converted to a larger unit."""
    return _LIMIT.sub(lambda limit: exact_duration_text(int(limit[0][:-3])), _text(found))


def _deliveries(found: Any) -> tuple[DeliveryCost, ...] | None:
    if found is None:
        return None
    return tuple(
        DeliveryCost(
            _objective(delivery["objective"]), _count(delivery["records"]), _finite(delivery["late"])
        )
        for delivery in found
    )


def _gain(found: Any) -> RebalanceGain | None:
    if found is None:
        return None
    figures = (_number(found[name]) for name in ("left", "predicted", "lasted"))
    return RebalanceGain(moment_of(found["acted_ms"]), *figures)


def moment_of(value: Any) -> int:
    """Return the value if it is a valid time in epoch milliseconds; otherwise raise one of `UNREADABLE`."""
    return bounds.integer("a time", int(value), 0, bounds.LARGEST_MS)


def _number(value: Any) -> float | None:
    return None if value is None else _finite(value)


def _value(value: Any) -> float | str:
    return _text(value) if isinstance(value, str) else _finite(value)


def _count(value: Any) -> int:
    return bounds.integer("a count", int(value), 0, _MOST)


def _finite(value: Any) -> float:
    return bounds.number("a figure", float(value), -math.inf, math.inf)


def _text(value: Any) -> str:
    return legible(str(value))
