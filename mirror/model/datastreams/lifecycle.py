"""States of a datastream and the legal transitions between them (Brooklin's rules). Pure."""

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
"""Actions, the states that allow them, and the resulting state."""
_ALREADY: Final = {("stop", _S.STOPPED), ("delete", _S.DELETING)}
"""Actions that have no effect because they were already taken."""


def next_status(datastream: Datastream, action: str) -> DatastreamStatus:
    """Return the status after the action. Raises IllegalTransition, which names the action and the current
    status."""
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
    """Return the datastream as activated by the leader: INITIALIZING becomes READY."""
    if datastream.status is not DatastreamStatus.INITIALIZING:
        return datastream
    return replace(datastream, status=next_status(datastream, "activate"))
