"""What the monitor needs from the world."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mirror.coordination.acting.effect import PlacementEffect
from mirror.model.identifiers import DatastreamName
from monitor.actions.policy import Record
from monitor.actions.worth import PastBreach
from monitor.causes.evidence import Evidence
from monitor.latency import Observations, Source, Subject
from monitor.movement.summary import Movements


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rebalance would do. `loads_known` false: nothing is known of the loads, so that a preview
    without moves says nothing. `effect` None: the service does not say it. `past`: breaches of the datastream
    that are over, as far as they can be read."""

    sentence: str
    moves: int
    loads_known: bool = True
    effect: PlacementEffect | None = None
    past: Sequence[PastBreach] = ()


@dataclass(frozen=True, slots=True)
class Hold:
    """Which monitor judges, and what is to be known before acting. `other`: the one that does; empty: this
    one. `record` None: the service is of a version that knows of no leases."""

    other: str
    record: Record | None


class Rest(Protocol):
    """REST of one instance: values in, JSON out."""

    def get(self, path: str, **parameters: Any) -> Any:
        """A resource. Raises Unreachable, HeadraceError."""
        ...

    def post(self, path: str, body: object) -> Any:
        """An answer. Raises Unreachable, HeadraceError."""
        ...

    def put(self, path: str, document: object, version: str) -> Any:
        """An answer. Raises Unreachable, HeadraceError."""
        ...

    def delete(self, path: str, version: str = "*", **parameters: Any) -> Any:
        """An answer. Raises Unreachable, HeadraceError."""
        ...


class Service(Protocol):
    """The mirroring service, as its REST shows it."""

    def subjects(self) -> Mapping[DatastreamName, Subject]:
        """Every datastream that is mirrored and has an objective. Raises Unreachable."""
        ...

    def movements(self) -> Movements:
        """What partitions do that are not OK, of every datastream. Raises Unreachable, HeadraceError."""
        ...

    def has_own_monitor(self) -> bool:
        """Whether a monitor runs within the service, so that another must not act. Raises Unreachable."""
        ...

    def hold(self) -> Hold:
        """Be the monitor that judges, or stay it; for each turn. Raises Unreachable, HeadraceError."""
        ...

    def release(self) -> None:
        """Let another monitor judge at once. Raises Unreachable, HeadraceError."""
        ...

    def evidence(self, subject: Subject) -> Evidence:
        """What instances say of the datastream's lanes, and which of them were not heard. Raises Unreachable,
        HeadraceError."""
        ...

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run. Raises Unreachable, HeadraceError."""
        ...

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """Ask for it; the request's identity. Raises Unreachable, IllegalTransition where another monitor
        judges by now, HeadraceError."""
        ...


class Measurements(Protocol):
    """What the mirror measured, as it is stored."""

    @property
    def remark(self) -> str:
        """Why it is not read where it is usually; empty where it is."""
        ...

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """What was measured in the window. Ages up to `least_ms` may be left out, as 0: where nearly all is
        in time, nearly nothing is read then. Of sources of `together` a sum over all topics is enough, as
        `EVERY_TOPIC`. Raises Unreachable, AnalyticsError."""
        ...
