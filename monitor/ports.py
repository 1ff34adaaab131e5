"""What the monitor needs from the world."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mirror.model.datastream import LatencyObjective
from mirror.model.identifiers import DatastreamName
from monitor.latency import Observation


@dataclass(frozen=True, slots=True)
class Preview:
    """What a rebalance would do."""

    sentence: str
    moves: int


class Service(Protocol):
    """The mirroring service, as its REST shows it."""

    def objectives(self) -> Mapping[DatastreamName, LatencyObjective]:
        """Of every datastream that is mirrored and has one. Raises Unreachable."""
        ...

    def preview_rebalance(self, name: DatastreamName) -> Preview:
        """A dry run. Raises Unreachable, HeadraceError."""
        ...

    def rebalance(self, name: DatastreamName, reason: str) -> str:
        """Ask for it; the request's identity. Raises Unreachable, HeadraceError."""
        ...


class Measurements(Protocol):
    """What the mirror measured, as it is stored."""

    def observe(self, window_seconds: float) -> Mapping[DatastreamName, Observation]:
        """Datastreams with measurements in the window. Raises Unreachable, AnalyticsError."""
        ...
