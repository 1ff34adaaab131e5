"""Monitors on /v1."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from mirror.coordination.acting.state import ActingState
from mirror.model.identifiers import DatastreamName


class MonitorActAnswer(BaseModel):
    """A rebalance that a monitor has asked for, and when (epoch ms)."""

    datastream: str
    asked_ms: int


class ActingAnswer(BaseModel):
    """Whether monitors may act, as a person wants it; `changed_ms` (epoch) null: nobody has ever said so."""

    is_on: bool
    reason: str
    requested_by: str
    changed_ms: int | None


class MonitorAnswer(BaseModel):
    """Monitors of the service. `holder`: which of them judges; null: none. `waiting`: the datastream whose
    rebalance a monitor has asked for and no plan has answered yet; null: there is none. `acts`: of a day, the
    oldest first."""

    acting: ActingAnswer
    holder: str | None
    waiting: str | None
    acts: list[MonitorActAnswer]

    @classmethod
    def from_state(cls, state: ActingState, waiting: DatastreamName | None) -> MonitorAnswer:
        """The JSON form."""
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
            acts=[MonitorActAnswer(datastream=one.datastream, asked_ms=one.time_ms) for one in state.acts],
        )


class MonitorBody(BaseModel):
    """Let monitors act, or forbid it: they judge and call people all the same."""

    model_config = ConfigDict(extra="forbid", strict=True)

    acting: bool
    reason: str = ""
    requested_by: str = "REST"


class LeaseBody(BaseModel):
    """A monitor's name for itself, which no other process has."""

    model_config = ConfigDict(extra="forbid", strict=True)

    holder: str


class LeaseAnswer(BaseModel):
    """`lease`: for `POST /v1/rebalance`; empty where another monitor has it. `monitor`: what is to be known
    before acting."""

    lease: str
    monitor: MonitorAnswer
