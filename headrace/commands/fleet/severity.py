"""Ranks the states of datastreams and partitions by severity. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

_STUCK: Final = frozenset(
    {"STALL", "STOP", "REWIND", "TRUNCATED", "RECREATED", "SOURCE_AWAY", "DESTINATION_AWAY"}
)
_BY_WISH: Final = "PAUSED_BY_USER"
_DAMAGED: Final = "DAMAGED"


class StatusSeverity(IntEnum):
    """Severity of a datastream's state, worst first."""

    LOSS = 0
    """The source is deleting uncopied records, or will within hours."""
    SET_ASIDE = 1
    LATE = 2
    STUCK = 3
    INCIDENT = 4
    """An incident is open, but the datastream meets its objective again."""
    BEHIND = 5
    REMARK = 6
    HALTED = 7
    WELL = 8

    @property
    def is_bad(self) -> bool:
        """Return whether `headrace status` must exit with an error for this severity."""
        return self <= StatusSeverity.STUCK


def is_by_request(state: str) -> bool:
    """Return whether a movement state means that a caller has paused the partition."""
    return state == _BY_WISH


def severity_of_state(state: str) -> StatusSeverity:
    """Return the severity of a movement state. An unlisted or unknown state counts as BEHIND."""
    if state in _STUCK:
        return StatusSeverity.STUCK
    return {"OK": StatusSeverity.WELL, _BY_WISH: StatusSeverity.HALTED}.get(state, StatusSeverity.BEHIND)


def severity_of(
    datastream: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    *,
    has_recovered: bool,
) -> StatusSeverity:
    """Return the severity of a datastream: that of its worst state. The arguments are resources of /v1.

    `has_recovered`: the datastream meets its objective again while its incident is still open.
    """
    return min(_found(datastream, movement, incident, has_recovered), default=StatusSeverity.WELL)


def _found(
    datastream: Mapping[str, Any],
    movement: Mapping[str, Any] | None,
    incident: Mapping[str, Any] | None,
    has_recovered: bool,
) -> Iterable[StatusSeverity]:
    problem, loss = datastream["problem"], movement and movement["loss"]
    if loss and loss["is_near"]:
        yield StatusSeverity.LOSS
    if datastream["status"] == _DAMAGED or (problem and problem["sets_aside"]):
        yield StatusSeverity.SET_ASIDE
    if incident:
        yield StatusSeverity.LATE if incident["is_late"] and not has_recovered else StatusSeverity.INCIDENT
    yield from (severity_of_state(count["state"]) for count in (movement["states"] if movement else ()))
    if problem:
        yield StatusSeverity.REMARK
    if datastream["halt"]:
        yield StatusSeverity.HALTED
