"""/v1/monitor: the active monitor, the permission of monitors to act, and their rebalances."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from api.fleet.dependencies import ServicesDep
from api.http.problems import StrictModel, problems
from api.services import Services
from mirror.coordination.monitors.state import ActingState
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1/monitor", tags=["status"])


class MonitorActAnswer(BaseModel):
    """A rebalance requested by a monitor, and its time (epoch ms)."""

    datastream: str
    asked_ms: int


class ActingAnswer(BaseModel):
    """Permission of monitors to request rebalances, as set by operators.

    `changed_ms`: time of the last change (epoch ms); null if the permission was never changed.
    """

    is_on: bool
    reason: str
    requested_by: str
    changed_ms: int | None


class MonitorAnswer(BaseModel):
    """State of the monitors of the service.

    `holder`: the active monitor, null if there is none. `waiting`: datastream for which a monitor has
    requested a rebalance that is not planned yet, null if there is none. `acts`: rebalances of the last day,
    oldest first.
    """

    acting: ActingAnswer
    holder: str | None
    waiting: str | None
    acts: list[MonitorActAnswer]

    @classmethod
    def from_state(cls, state: ActingState, waiting: DatastreamName | None) -> MonitorAnswer:
        """Return the stored state of monitors as a response."""
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


class MonitorBody(StrictModel):
    """Permission of monitors to request rebalances. Without it, they still evaluate objectives and send
    alerts."""

    acting: bool
    reason: str = ""
    requested_by: str = "REST"


class LeaseBody(StrictModel):
    """Request for the lease of the active monitor: the unique name of a monitor process."""

    holder: str


class LeaseAnswer(BaseModel):
    """Result of a request for the lease.

    `lease`: parameter of `POST /v1/rebalance`; empty if another monitor has the lease. `monitor`: whether
    monitors may request rebalances, and the rebalances that they requested recently.
    """

    lease: str
    monitor: MonitorAnswer


@router.get("")
def monitor(services: ServicesDep) -> MonitorAnswer:
    """Return the active monitor and the rebalances that monitors requested within a day.

    Also return whether monitors may request rebalances.
    """
    return _answer(services, services.acting.state())


@router.patch("")
def switch(body: MonitorBody, services: ServicesDep) -> MonitorAnswer:
    """Allow or forbid monitors to request rebalances.

    The change takes effect immediately, applies to every instance and survives restarts. Monitors evaluate
    objectives and send alerts even if rebalances are forbidden.
    """
    state = services.acting.switch(services.control, body.acting, body.reason, body.requested_by)
    return _answer(services, state)


@router.put("/lease")
def hold(body: LeaseBody, services: ServicesDep) -> LeaseAnswer:
    """Become or remain the active monitor. The lease is available if no monitor has it, if it was not renewed
    for 30 seconds, or if the holder's instance has ended. Each evaluation of a monitor sends this request."""
    state = services.acting.hold(services.control, body.holder)
    is_ours = state.lease is not None and state.lease.holder == body.holder
    lease = state.lease.identity if state.lease is not None and is_ours else ""
    return LeaseAnswer(lease=lease, monitor=_answer(services, state))


@router.delete("/lease", responses=problems(409))
def release(
    services: ServicesDep, holder: Annotated[str, Query(description="holder that took the lease")]
) -> MonitorAnswer:
    """Release the lease, so that another monitor becomes active immediately."""
    services.acting.release(services.control, holder)
    return _answer(services, services.acting.state())


def _answer(services: Services, state: ActingState) -> MonitorAnswer:
    return MonitorAnswer.from_state(state, services.acting.waiting(state))
