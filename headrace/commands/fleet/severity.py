"""How bad it is what a service says of a datastream or a partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

_STUCK: Final = frozenset(
    {"STALL", "STOP", "REWIND", "TRUNCATED", "RECREATED", "SOURCE_AWAY", "DESTINATION_AWAY"}
)
_BY_WISH: Final = "PAUSED_BY_USER"
_DAMAGED: Final = "DAMAGED"


class Severity(IntEnum):
    """The worst first."""

    LOSS = 0
    """It loses records within hours, or does already."""
    SET_ASIDE = 1
    LATE = 2
    STUCK = 3
    INCIDENT = 4
    """One that is open, of a datastream that is within its objective."""
    BEHIND = 5
    REMARK = 6
    HALTED = 7
    WELL = 8

    @property
    def is_bad(self) -> bool:
        """Return whether a script has to report it."""
        return self <= Severity.STUCK


def severity_of_state(state: str) -> Severity:
    """Of a state of movement; one that is unknown may be anything."""
    if state in _STUCK:
        return Severity.STUCK
    return {"OK": Severity.WELL, _BY_WISH: Severity.HALTED}.get(state, Severity.BEHIND)


def severity_of(
    datastream: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    *,
    has_recovered: bool,
) -> Severity:
    """Of a datastream as the resources of /v1 show it: the worst that is true of it. `has_recovered`: it is
    within its objective again, and the incident is not over yet."""
    return min(_found(datastream, movement, incident, has_recovered), default=Severity.WELL)


def _found(
    datastream: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    has_recovered: bool,
) -> Iterable[Severity]:
    problem, loss = datastream["problem"], movement and movement["loss"]
    if loss and loss["is_near"]:
        yield Severity.LOSS
    if datastream["status"] == _DAMAGED or (problem and problem["sets_aside"]):
        yield Severity.SET_ASIDE
    if incident:
        yield Severity.LATE if incident["is_late"] and not has_recovered else Severity.INCIDENT
    yield from (severity_of_state(one["state"]) for one in (movement["states"] if movement else ()))
    if problem:
        yield Severity.REMARK
    if datastream["halt"]:
        yield Severity.HALTED
