"""Result of one evaluation by the monitor, and the interface of objects that process it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mirror.model.identifiers import DatastreamName
from monitor.actions import PredictedSaving
from monitor.causes.diagnosis import Diagnosis
from monitor.incidents import Incident
from monitor.latency import LatencyVerdict, ObjectiveSubject
from monitor.movement.summary import FleetMovement
from monitor.objectives.late_times import Lateness


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of one evaluation of a datastream. `action`: actions taken, as text. `cluster`: source cluster.
    `diagnosis`: cause of late records while an incident is open; None if there is no open incident or the
    evidence cannot be read. `worth`: prediction for a rebalance requested in this evaluation. `subject`: the
    datastream as evaluated. `decision`: decision about a rebalance; `has_acted`: whether a rebalance was
    requested. `closes_in`: seconds until a recovered incident closes if it stays recovered. `lateness`: times
    at which records were late; None if unknown or if the objective is met."""

    verdict: LatencyVerdict
    incident: Incident
    action: str
    cluster: str = ""
    diagnosis: Diagnosis | None = None
    worth: PredictedSaving | None = None
    subject: ObjectiveSubject | None = None
    decision: str = ""
    has_acted: bool = False
    closes_in: float | None = None
    lateness: Lateness | None = None

    @property
    def is_over(self) -> bool:
        """Return whether the datastream's records arrive in time again. The window may still contain late
        records."""
        return self.lateness is not None and self.lateness.is_over


class EvaluationListener(Protocol):
    """Interface of objects that process the results of each evaluation. Methods must not block."""

    def judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement, /) -> None:
        """Process an evaluation: the finding about each datastream, and the states of partitions."""
        ...

    def judging_failed(self, reason: str, movements: FleetMovement, /) -> None:
        """Process an evaluation that has no verdict on any datastream. `movements` may still contain the
        states of partitions."""
        ...
