"""Lease of a monitor within an instance, and the leases and rebalances that the service has recorded."""

from __future__ import annotations

import secrets
from typing import Final

from mirror.control.audit import MONITOR
from mirror.control.commands import TriggerRebalance
from mirror.control.handlers import Control
from mirror.control.monitor_actions import MonitorActions
from mirror.coordination.monitors.state import ActingState
from mirror.model.bounds import LONGEST_NAME
from mirror.model.identifiers import DatastreamName, InstanceName
from monitor.actions import ActionRecord, RebalanceAction
from monitor.ports import LeaseHold

_TOKEN_BYTES: Final = 4
_BETWEEN: Final = "another monitor, between two evaluations by this one"


class HeldLease:
    """Lease of one monitor that runs within the service. `instance`: instance that runs the monitor."""

    def __init__(self, acting: MonitorActions, control: Control, instance: InstanceName) -> None:
        self._acting = acting
        self._control = control.of(MONITOR)
        self._instance = instance
        self._holder = f"{secrets.token_hex(_TOKEN_BYTES)} within {instance}"[:LONGEST_NAME]
        self._lease = ""

    def hold(self) -> LeaseHold:
        """Renew or acquire the monitor lease. Raises Unreachable.

        The lease is acquired only if no other monitor holds it.
        """
        state = self._acting.hold(self._control, self._holder, self._instance)
        before, (self._lease, other) = self._lease, lease_of(state, self._holder)
        other = other or judged_between(before, self._lease)
        return LeaseHold(other, record_of(state, self._acting.waiting(state)))

    def release(self) -> None:
        """Release the monitor lease, so that another monitor can take over at once. Raises Unreachable."""
        self._lease = ""
        self._acting.release(self._control, self._holder)

    def rebalance(self, command: TriggerRebalance) -> str:
        """Request a rebalance under the lease and return the id of the request. Raises IllegalTransition,
        Unreachable."""
        return self._acting.rebalance(self._control, self._lease, command).identity


def lease_of(state: ActingState, holder: str) -> tuple[str, str]:
    """Return the lease id of `holder`, or the name of the monitor that has the lease instead. The other value
    is empty."""
    lease = state.lease
    if lease is not None and lease.holder == holder:
        return lease.identity, ""
    return "", lease.holder if lease is not None else ""


def judged_between(before: str, now: str) -> str:
    """Describe that another monitor held the lease between the last two renewals; empty if none did."""
    return _BETWEEN if before and now not in ("", before) else ""


def record_of(state: ActingState, waiting: DatastreamName | None) -> ActionRecord:
    """Return the rebalances that all monitors have requested recently."""
    switch = state.switch
    off = "" if switch.is_on else switch.reason or f"by {switch.requested_by}"
    return ActionRecord(
        off, tuple(RebalanceAction(act.datastream, act.time_ms) for act in state.acts), waiting or ""
    )
