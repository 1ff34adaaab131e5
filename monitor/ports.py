"""Interfaces through which the monitor accesses the service and its measurements."""

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
    """Predicted result of a rebalance, from a dry run.

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
    """Result of a request for the monitor lease: which monitor has it, and the record of rebalances.

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
    """Operations of the mirroring service that a monitor needs."""

    def subjects(self) -> Mapping[DatastreamName, ObjectiveSubject]:
        """Return every mirrored datastream with an objective. Raises Unreachable."""
        ...

    def movements(self) -> FleetMovement:
        """Return the partitions of each datastream that are not OK. Raises Unreachable, HeadraceError."""
        ...

    def has_own_monitor(self) -> bool:
        """Return whether an instance runs its own monitor, so that other monitors must not act. Raises
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
        """Return the instances' reports about the lanes of a datastream, and the instances that did not
        respond.

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
    """Interface to the stored measurements of the mirror."""

    @property
    def remark(self) -> str:
        """Reason why the fallback source is in use; empty if it is not."""
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
        """Return, for each source and topic, the late records reported after `since_ms` (epoch ms).

        Records with a latency of at most `least_ms` are ignored. Returns None if only short windows can be
        read. Raises Unreachable, AnalyticsError.
        """
        ...
