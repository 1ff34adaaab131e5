"""Partitions that are not OK, by datastream, on /v1."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from monitor.movement.summary import FleetMovement, Movement


class _MovementModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StateCountAnswer(_MovementModel):
    """Partitions of a datastream in one state."""

    state: str
    """CATCHING_UP, WARN, STALL, STOP, REWIND, PAUSED_BY_USER, PAUSED_BY_ITSELF, THROTTLED, SOURCE_AWAY,
    DESTINATION_AWAY, TRUNCATED, RECREATED, WAITING_FOR_TRANSACTION."""
    partitions: int
    worst: str
    """Partition that has been in this state for longest."""
    reason: str
    """Reason of that partition."""
    since_ms: int | None
    """Time since which it has been in this state (epoch ms); null: unknown for all."""
    idle: int
    """Number of these partitions without waiting records and without traffic in the 15 minutes before."""
    without_process: int = 0
    """Number of these partitions whose worker process is missing or does not respond."""


class LossAnswer(_MovementModel):
    """Partitions expected to lose records at the source before they are copied."""

    partitions: int
    worst: str
    """Partition that loses records first."""
    seconds: float
    """Time until the first loss, in seconds."""
    eta_seconds: float | None
    """Time until that partition has caught up, in seconds; null: it does not catch up."""
    share: float | None
    """Uncopied share of the records retained by the source, maximum of the partitions; null: unknown."""
    is_near: bool
    """True if the loss is within four hours, so that an operator must act."""


class DatastreamMovement(_MovementModel):
    """Partitions of a datastream that are not OK."""

    name: str
    cluster: str
    """Source cluster."""
    destination: str
    """Destination cluster."""
    states: list[StateCountAnswer]
    loss: LossAnswer | None


class MovementsAnswer(_MovementModel):
    """All datastreams by name, including the ones that are OK."""

    is_complete: bool
    """True if all instances responded; otherwise the worst partitions may be missing."""
    datastreams: list[DatastreamMovement]

    @classmethod
    def from_movements(cls, found: FleetMovement) -> MovementsAnswer:
        """Return the JSON form."""
        datastreams = [
            {
                "name": name,
                "cluster": one.cluster,
                "destination": one.destination,
                **_document_of(one.movement),
            }
            for name, one in found.datastreams.items()
        ]
        return cls.model_validate({"is_complete": found.is_complete, "datastreams": datastreams})


def _document_of(movement: Movement) -> dict[str, Any]:
    found = asdict(movement)
    if movement.loss is not None:
        found["loss"]["is_near"] = movement.loss.is_near
    return found
