"""What partitions do that are not OK, by datastream, on /v1."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict

from monitor.movement.summary import Movement, Movements


class _MovementModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class StateCountAnswer(_MovementModel):
    """Partitions of a datastream that are in one state."""

    state: str
    """CATCHING_UP, WARN, STALL, STOP, REWIND, PAUSED_BY_USER, PAUSED_BY_ITSELF, THROTTLED, SOURCE_AWAY,
    DESTINATION_AWAY, TRUNCATED, RECREATED, WAITING_FOR_TRANSACTION."""
    partitions: int
    worst: str
    """The one that has been so for longest."""
    reason: str
    """What is said of that one."""
    since_ms: int | None
    """Since when it is so (epoch ms); null: not known of any."""
    idle: int
    """How many of them have nothing that waits and had no traffic for 15 minutes before."""


class LossAnswer(_MovementModel):
    """Partitions of which the source deletes records before they are copied, as things stand."""

    partitions: int
    worst: str
    """The one that loses records first."""
    seconds: float
    """Until it does."""
    eta_seconds: float | None
    """Until it has caught up; null: it does not catch up."""
    share: float | None
    """Of what the source keeps of one of them, the most that waits; null: unknown."""
    is_near: bool
    """Whether that is so near, within four hours, that somebody has to act."""


class DatastreamMovement(_MovementModel):
    """What the partitions of a datastream do that are not OK."""

    name: str
    cluster: str
    """Of the source."""
    destination: str
    """The cluster of the destination."""
    states: list[StateCountAnswer]
    loss: LossAnswer | None


class MovementsAnswer(_MovementModel):
    """Datastreams by name, those that are OK among them."""

    is_complete: bool
    """Whether all instances were heard; else what is missing may be the worst."""
    datastreams: list[DatastreamMovement]

    @classmethod
    def from_movements(cls, found: Movements) -> MovementsAnswer:
        """The JSON form."""
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
