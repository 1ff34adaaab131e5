"""Statuses of a datastream and the permitted transitions, as in Brooklin. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus

_S = DatastreamStatus

TRANSITIONS: Final = {
    "activate": ({_S.INITIALIZING}, _S.READY),
    "pause": ({_S.READY}, _S.PAUSED),
    "resume": ({_S.PAUSED, _S.STOPPED}, _S.READY),
    "stop": ({_S.READY, _S.PAUSED, _S.STOPPING}, _S.STOPPING),
    "settle": ({_S.STOPPING}, _S.STOPPED),
    "delete": (set(_S) - {_S.DELETING}, _S.DELETING),
}
"""Actions, the statuses in which they are permitted, and the resulting status."""
_ALREADY: Final = {("stop", _S.STOPPED), ("delete", _S.DELETING)}
"""Actions that have no effect in this status, because they were already performed."""


def next_status(datastream: Datastream, action: str) -> DatastreamStatus:
    """Return the status after an action. Raises IllegalTransition."""
    if (action, datastream.status) in _ALREADY:
        return datastream.status
    allowed, target = TRANSITIONS[action]
    if datastream.status not in allowed:
        states = ", ".join(sorted(allowed))
        raise IllegalTransition(
            f"datastream {datastream.name} is {datastream.status}; {action} is allowed from {states}"
        )
    return target


def activated(datastream: Datastream) -> Datastream:
    """Return the datastream with the status READY if it was INITIALIZING."""
    if datastream.status is not DatastreamStatus.INITIALIZING:
        return datastream
    return replace(datastream, status=next_status(datastream, "activate"))
