"""What the service says of leases and acts, as the monitor knows them."""

from __future__ import annotations

from mirror.coordination.acting.state import ActingState
from mirror.model.identifiers import DatastreamName
from monitor.actions.policy import Act, Record


def lease_of(state: ActingState, holder: str) -> tuple[str, str]:
    """The identity of the holder's lease, or else which other monitor has it."""
    lease = state.lease
    if lease is not None and lease.holder == holder:
        return lease.identity, ""
    return "", lease.holder if lease is not None else ""


def record_of(state: ActingState, waiting: DatastreamName | None) -> Record:
    """What counts when the monitor decides."""
    switch = state.switch
    off = "" if switch.is_on else switch.reason or f"by {switch.requested_by}"
    return Record(off, tuple(Act(one.datastream, one.time_ms) for one in state.acts), waiting or "")
