"""Stored state of monitors, and its transitions. Pure.

A lease expires if it is not renewed for `LEASE_SECONDS`. Each instance measures the age of the lease with its
own monotonic clock, so the clocks of different machines are never compared. If the monitor runs inside an
instance, its lease also ends when the instance leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from mirror.coordination.stores.requests import RebalanceRequest
from mirror.model import bounds
from mirror.model.datastreams.datastream import check_name
from mirror.model.identifiers import DatastreamName, GroupName

LEASE_SECONDS: Final = 30.0
KEPT_MS: Final = 24 * 3_600_000
MOST_ACTS: Final = 1_000
"""Maximum number of rebalances that are recorded per day. The oldest records are dropped first."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Permission for monitors to request rebalances, set by an operator.

    `changed_ms`: time of the last change, 0 if never set.
    """

    is_on: bool = True
    reason: str = ""
    requested_by: str = ""
    changed_ms: int = 0


@dataclass(frozen=True, slots=True)
class MonitorLease:
    """Lease of the active monitor.

    `identity`: unique to each acquisition. `holder`: unique to a process. `instance`: sequence number of the
    instance that runs the monitor; None for a monitor in a separate process.
    """

    identity: str
    holder: str
    instance: int | None = None
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class MonitorAct:
    """A rebalance requested by a monitor."""

    datastream: DatastreamName
    group: GroupName
    time_ms: int


@dataclass(frozen=True, slots=True)
class ActingState:
    """Stored state of monitors: lease, permission, and past rebalances.

    `acts`: past rebalances, oldest first.
    """

    switch: Switch = field(default_factory=Switch)
    lease: MonitorLease | None = None
    acts: tuple[MonitorAct, ...] = ()

    def acted(self, act: MonitorAct) -> ActingState:
        """Return the state with a rebalance added, and without rebalances older than a day."""
        kept = [earlier for earlier in self.acts if abs(act.time_ms - earlier.time_ms) < KEPT_MS]
        return replace(self, acts=(*kept, act)[-MOST_ACTS:])

    def waiting(self, requests: Sequence[RebalanceRequest]) -> DatastreamName | None:
        """Return the datastream whose rebalance is still pending, or None.

        `requests`: pending requests.
        """
        requested = {(request.group, request.requested_ms) for request in requests}
        return next((act.datastream for act in self.acts if (act.group, act.time_ms) in requested), None)


def document_of(state: ActingState) -> dict[str, Any]:
    """Return the stored state of monitors as a JSON object."""
    return asdict(state)


def state_of(document: Mapping[str, Any]) -> ActingState:
    """Parse the stored state of monitors. Raises InvalidRequest.

    Unknown fields, which a newer version may have written, are ignored.
    """
    switch = bounds.mapping("switch", bounds.field(document, "switch"))
    lease = bounds.field(document, "lease")
    acts = bounds.sequence("acts", bounds.field(document, "acts"), MOST_ACTS)
    return ActingState(
        Switch(
            bounds.flag("is_on", bounds.field(switch, "is_on")),
            *bounds.cause(bounds.field(switch, "reason"), bounds.field(switch, "requested_by")),
            bounds.integer("changed_ms", bounds.field(switch, "changed_ms"), 0, bounds.LARGEST_MS),
        ),
        None if lease is None else _lease(bounds.mapping("lease", lease)),
        tuple(_act(bounds.mapping("an act", act)) for act in acts),
    )


def _lease(document: Mapping[str, Any]) -> MonitorLease:
    instance = bounds.field(document, "instance")
    return MonitorLease(
        bounds.line("the lease", bounds.field(document, "identity")),
        bounds.line("the holder", bounds.field(document, "holder")),
        None if instance is None else bounds.integer("the instance", instance, 0, 2**63),
        bounds.integer("renewals", bounds.field(document, "renewals"), 0, 2**63),
    )


def _act(document: Mapping[str, Any]) -> MonitorAct:
    name, group = bounds.field(document, "datastream"), bounds.field(document, "group")
    check_name(name, "a datastream")
    check_name(group, "a group of datastreams")
    return MonitorAct(
        DatastreamName(name),
        GroupName(group),
        bounds.integer("time_ms", bounds.field(document, "time_ms"), 0, bounds.LARGEST_MS),
    )
