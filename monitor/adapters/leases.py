"""The lease of a monitor within an instance, and what the service says of leases and acts."""

from __future__ import annotations

import secrets
from typing import Final

from mirror.control.audit import MONITOR
from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.control.monitors.acts import Acting
from mirror.coordination.acting.state import ActingState
from mirror.model.bounds import LONGEST_NAME
from mirror.model.identifiers import DatastreamName, InstanceName
from monitor.actions.policy import Act, Record
from monitor.ports import Hold

_TOKEN_BYTES: Final = 4
_BETWEEN: Final = "another one, between two turns of this one"


class HeldLease:
    """Of one monitor, as long as it lives. `instance`: the one that it is within."""

    def __init__(self, acting: Acting, control: Control, instance: InstanceName) -> None:
        self._acting = acting
        self._control = control.of(MONITOR)
        self._instance = instance
        self._holder = f"{secrets.token_hex(_TOKEN_BYTES)} within {instance}"[:LONGEST_NAME]
        self._lease = ""

    def hold(self) -> Hold:
        """Renew it, or take it where no other monitor has it. Raises Unreachable."""
        state = self._acting.hold(self._control, self._holder, self._instance)
        before, (self._lease, other) = self._lease, lease_of(state, self._holder)
        other = other or judged_between(before, self._lease)
        return Hold(other, record_of(state, self._acting.waiting(state)))

    def release(self) -> None:
        """Let another monitor judge at once. Raises Unreachable."""
        self._lease = ""
        self._acting.release(self._control, self._holder)

    def rebalance(self, command: TriggerRebalance) -> str:
        """Ask for it by the lease; the request's identity. Raises IllegalTransition, Unreachable."""
        return self._acting.rebalance(self._control, self._lease, command).identity


def lease_of(state: ActingState, holder: str) -> tuple[str, str]:
    """The identity of the holder's lease, or else which other monitor has it."""
    lease = state.lease
    if lease is not None and lease.holder == holder:
        return lease.identity, ""
    return "", lease.holder if lease is not None else ""


def judged_between(before: str, now: str) -> str:
    """Which other monitor had the lease between two renewals; empty where none had. Both are ours."""
    return _BETWEEN if before and now not in ("", before) else ""


def record_of(state: ActingState, waiting: DatastreamName | None) -> Record:
    """What counts when the monitor decides."""
    switch = state.switch
    off = "" if switch.is_on else switch.reason or f"by {switch.requested_by}"
    return Record(off, tuple(Act(one.datastream, one.time_ms) for one in state.acts), waiting or "")
