"""Schemas of monitors on /v1."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from mirror.coordination.acting.state import ActingState
from mirror.model.identifiers import DatastreamName


class MonitorActAnswer(BaseModel):
    """A rebalance requested by a monitor, and its time (epoch ms)."""

    datastream: str
    asked_ms: int


class ActingAnswer(BaseModel):
    """Permission of monitors to act, set by operators. `changed_ms` (epoch): null if it was never changed."""

    is_on: bool
    reason: str
    requested_by: str
    changed_ms: int | None


class MonitorAnswer(BaseModel):
    """State of the monitors of the service. `holder`: the active monitor; null: none. `waiting`: datastream
    of a rebalance requested by a monitor that no plan has answered yet; null: none. `acts`: rebalances of the
    last day, oldest first."""

    acting: ActingAnswer
    holder: str | None
    waiting: str | None
    acts: list[MonitorActAnswer]

    @classmethod
    def from_state(cls, state: ActingState, waiting: DatastreamName | None) -> MonitorAnswer:
        """Convert the stored state."""
        switch = state.switch
        return cls(
            acting=ActingAnswer(
                is_on=switch.is_on,
                reason=switch.reason,
                requested_by=switch.requested_by,
                changed_ms=switch.changed_ms or None,
            ),
            holder=state.lease.holder if state.lease else None,
            waiting=waiting,
            acts=[MonitorActAnswer(datastream=act.datastream, asked_ms=act.time_ms) for act in state.acts],
        )


class MonitorBody(BaseModel):
    """Allow or forbid monitors to act. They judge and alert regardless."""

    model_config = ConfigDict(extra="forbid", strict=True)

    acting: bool
    reason: str = ""
    requested_by: str = "REST"


class LeaseBody(BaseModel):
    """Unique name of a monitor process."""

    model_config = ConfigDict(extra="forbid", strict=True)

    holder: str


class LeaseAnswer(BaseModel):
    """Result of a request for the lease. `lease`: parameter of `POST /v1/rebalance`; empty if another monitor
    holds the lease. `monitor`: state to consider before acting."""

    lease: str
    monitor: MonitorAnswer
