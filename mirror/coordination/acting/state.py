"""What is stored of monitors, and how it changes. Pure.

A lease is over when it was not renewed for `LEASE_SECONDS`, which each instance counts by its own clock:
no two clocks are compared. That of a monitor within an instance is over with the instance, too.
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
"""Of a day; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Switch:
    """Whether monitors may act, as a person wants it. `changed_ms` 0: nobody has ever said so."""

    is_on: bool = True
    reason: str = ""
    requested_by: str = ""
    changed_ms: int = 0


@dataclass(frozen=True, slots=True)
class MonitorLease:
    """Which monitor judges. `identity`: another one for each time that the lease is taken; `holder`: of one
    process alone; `instance`: the sequence of the instance that the monitor is part of, None for a process of
    its own."""

    identity: str
    holder: str
    instance: int | None = None
    renewals: int = 0


@dataclass(frozen=True, slots=True)
class MonitorAct:
    """A rebalance that a monitor has asked for."""

    datastream: DatastreamName
    group: GroupName
    time_ms: int


@dataclass(frozen=True, slots=True)
class ActingState:
    """All of it. `acts`: the oldest first."""

    switch: Switch = field(default_factory=Switch)
    lease: MonitorLease | None = None
    acts: tuple[MonitorAct, ...] = ()

    def acted(self, act: MonitorAct) -> ActingState:
        """With one more act, and without those of former days."""
        kept = [one for one in self.acts if act.time_ms - one.time_ms < KEPT_MS]
        return replace(self, acts=(*kept, act)[-MOST_ACTS:])

    def waiting(self, requests: Sequence[RebalanceRequest]) -> DatastreamName | None:
        """The datastream of an act that the leader has not answered: `requests` are those that wait."""
        asked = {(one.group, one.requested_ms) for one in requests}
        return next((one.datastream for one in self.acts if (one.group, one.time_ms) in asked), None)


def document_of(state: ActingState) -> dict[str, Any]:
    """As JSON."""
    return asdict(state)


def state_of(document: Mapping[str, Any]) -> ActingState:
    """Fields that are not known are left alone: a newer version may have written them. Raises
    InvalidRequest."""
    switch = bounds.mapping("switch", bounds.field(document, "switch"))
    lease = bounds.field(document, "lease")
    acts = bounds.sequence("acts", bounds.field(document, "acts"), MOST_ACTS)
    return ActingState(
        Switch(
            bounds.flag("is_on", bounds.field(switch, "is_on")),
            bounds.text("the reason", bounds.field(switch, "reason"), bounds.LONGEST_REASON),
            bounds.text("requested_by", bounds.field(switch, "requested_by"), bounds.LONGEST_NAME),
            bounds.integer("changed_ms", bounds.field(switch, "changed_ms"), 0, bounds.LARGEST_MS),
        ),
        None if lease is None else _lease(bounds.mapping("lease", lease)),
        tuple(_act(bounds.mapping("an act", one)) for one in acts),
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
