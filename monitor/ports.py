"""Interfaces of the monitor to the service and to measurements."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mirror.coordination.monitors.effect import PlacementEffect
from mirror.model.identifiers import DatastreamName
from monitor.actions import ActionRecord, PastBreach
from monitor.causes.evidence import Evidence
from monitor.latency import ObjectiveSubject, Observations, Source
from monitor.movement.summary import FleetMovement
from monitor.objectives.late_times import LateTopics


@dataclass(frozen=True, slots=True)
class Preview:
    """Predicted result of a rebalance.

    `loads_known`: False if loads are unknown; then, a preview without moves does not prove that a rebalance
    is useless. `effect`: None if the service does not report it. `past`: past breaches of the datastream,
    empty if they cannot be read.
    """

    sentence: str
    moves: int
    loads_known: bool = True
    effect: PlacementEffect | None = None
    past: Sequence[PastBreach] = ()


@dataclass(frozen=True, slots=True)
class LeaseHold:
    """Holder of the monitor lease, and the state to check before acting.

    `other`: the other monitor that holds the lease, or an empty string. `record`: None if the service has a
    version without leases.
    """

    other: str
    record: ActionRecord | None


class InstanceClient(Protocol):
    """REST client of one instance. Request bodies are Python values, responses are parsed JSON."""

    def get(self, path: str, **parameters: Any) -> Any:
        """Send a GET request and return the response. Raises Unreachable, HeadraceError."""
        ...

    def post(self, path: str, body: object) -> Any:
        """Send a POST request and return the response. Raises Unreachable, HeadraceError."""
        ...

    def put(self, path: str, document: object, version: str) -> Any:
        """Send a PUT request and return the response. Raises Unreachable, HeadraceError."""
        ...

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        """Send a DELETE request and return the response. Raises Unreachable, HeadraceError."""
        ...


class Service(Protocol):
    """The operations of the mirroring service that the monitor uses."""

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        """Return every mirrored datastream with an objective. Raises Unreachable."""
        ...

    def movements(self) -> FleetMovement:
        """Return the partitions that are not OK, by datastream. Raises Unreachable, HeadraceError."""
        ...

    def has_own_monitor(self) -> bool:
        """Return whether an instance runs a monitor, so that other monitors must not act. Raises
        Unreachable."""
        ...

    def hold(self) -> LeaseHold:
        """Acquire or renew the monitor lease. Called in each evaluation.

        Raises Unreachable, HeadraceError.
        """
        ...

    def release(self) -> None:
        """Release the monitor lease, so that another monitor can take over at once. Raises Unreachable,
        HeadraceError."""
        ...

    def evidence(self, subject: ObjectiveSubject) -> Evidence:
        """Return the reports of instances on the datastream's lanes, and instances that did not respond.

        Raises Unreachable, HeadraceError.
        """
        ...

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """Return the predicted result of a rebalance (dry run). Raises Unreachable, HeadraceError."""
        ...

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """Request a rebalance of a datastream and return the id of the request. Raises Unreachable,
        IllegalTransition if another monitor has become active, HeadraceError."""
        ...


class Measurements(Protocol):
    """Stored measurements of the mirror."""

    @property
    def remark(self) -> str:
        """Reason why a fallback source is used, or an empty string."""
        ...

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """Return the measurements of the window.

        Ages up to `least_ms` may be reported as 0, so that less data is read. A source in `together` may be
        reported as one sum over all topics (`EVERY_TOPIC`). Raises Unreachable, AnalyticsError.
        """
        ...

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        """Return the late records reported after `since_ms` (epoch ms), by source and topic.

        Records with a latency of at most `least_ms` are ignored. Returns None if only short windows can be
        read. Raises Unreachable, AnalyticsError.
        """
        ...
