"""Chooses the main cause of an incident, which is the one with the most bad seconds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from monitor.causes.diagnosis import CATCH_UPS, OF_PLACEMENT, UNAVAILABLE, Cause, Diagnosis
from monitor.records.record import IncidentRecord, Phase


def with_known_cause(
    record: IncidentRecord, found: Diagnosis | None, known: str | None, seconds: float
) -> IncidentRecord | None:
    """Return the record with the time of an evaluation added to a cause that follows from other problems.

    Returns None if no cause is known, or if the diagnosis names a different event. `known`: cause that
    follows from other problems.
    """
    if known is None or not (found is None or found.cause in _AFTERWARDS):
        return None
    record = replace(record, causes={**record.causes, known: record.causes.get(known, 0.0) + seconds})
    if record.cause in _UNNAMED:
        return replace(record, cause=known)
    return replace(record, cause=known, evidence={}) if _has_clearly_more(record, known) else record


def with_cause(
    record: IncidentRecord, found: Diagnosis | None, seconds: float, now_ms: int
) -> IncidentRecord:
    """Return the record with the time of an evaluation added to its cause, and with its main cause.

    Another cause replaces the current cause only if it has clearly more bad seconds, so that alternating
    causes do not fill the timeline. Time spent catching up counts towards the cause before it. Wrong
    timestamps are ignored if there is another cause, because records that producers held back in an outage
    also have old timestamps.
    """
    if found is None or (found.cause in _UNTELLING and record.cause not in _UNNAMED):
        return record
    if found.cause is Cause.UNKNOWN and record.cause:
        return record
    headline, cause = record.cause, found.cause.value
    if found.cause in CATCH_UPS and headline not in _REPLACEABLE:
        cause = headline
    exact = _EXACT.get(headline)
    if exact is not None and exact == cause:
        record = replace(record, causes=_renamed(record.causes, headline, cause))
    elif _EXACT.get(cause) == headline:
        cause = headline
    causes = {**record.causes, cause: record.causes.get(cause, 0.0) + seconds}
    record = replace(record, causes=causes)
    is_first = (headline in _UNNAMED and cause not in _UNNAMED) or exact == cause
    if cause != headline and (is_first or _has_clearly_more(record, cause)):
        record = record.noted(now_ms, Phase.CLASSIFIED, found.sentence)
        return replace(record, cause=cause, evidence=dict(found.evidence))
    return replace(record, evidence=dict(found.evidence)) if found.cause.value == headline else record


def _has_clearly_more(record: IncidentRecord, cause: str) -> bool:
    """Return whether a cause has clearly more bad seconds than the incident's main cause."""
    least = _CLEARLY_MORE * record.causes.get(record.cause, 0.0) + _CLEARLY_SECONDS
    return record.causes[cause] > least


def with_implied_cause(record: IncidentRecord) -> IncidentRecord:
    """Return the record with an unknown main cause replaced by the cause that its problems imply. Lateness
    within the objective is not diagnosed."""
    implied = next((_IMPLIED[name] for name in record.matters if name in _IMPLIED), "")
    return replace(record, cause=implied) if implied and record.cause in _UNNAMED else record


def _renamed(causes: Mapping[str, float], name: str, exact: str) -> dict[str, float]:
    """Replace the general cause `name` by the cause `exact`, which gets its bad seconds."""
    others = {cause: seconds for cause, seconds in causes.items() if cause not in (name, exact)}
    return {**others, exact: causes.get(name, 0.0) + causes.get(exact, 0.0)}


_IMPLIED: Final = {"HeadraceProcessLost": Cause.WORKER_LOST.value}
"""Causes that alerts imply, by name of the alert. The loss of an instance is found by a diagnosis instead."""
_EXACT: Final = {cause.value: exact.value for cause, exact in UNAVAILABLE.items()}
_UNTELLING: Final = frozenset({Cause.UNKNOWN, Cause.WRONG_TIMESTAMPS})
_BY_PHASE: Final = frozenset({Cause.SOURCE_BOUND, Cause.DESTINATION_BOUND, Cause.NETWORK, Cause.START_UP})
_AFTERWARDS: Final = _UNTELLING | CATCH_UPS | OF_PLACEMENT | _BY_PHASE
"""Causes that a diagnosis may name by mistake while the backlog of a past event is copied."""
_UNNAMED: Final = frozenset({"", Cause.UNKNOWN.value})
_REPLACEABLE: Final = _UNNAMED | {cause.value for cause in CATCH_UPS}
_CLEARLY_MORE: Final = 1.25
_CLEARLY_SECONDS: Final = 20.0
