"""/v1/monitor"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from api.acting.schemas import LeaseAnswer, LeaseBody, MonitorAnswer, MonitorBody
from api.dependencies import ServicesDep
from api.schemas.problems import problems
from api.services import Services
from mirror.coordination.acting.state import ActingState

router = APIRouter(prefix="/v1/monitor", tags=["status"])


@router.get("")
def monitor(services: ServicesDep) -> MonitorAnswer:
    """Return the active monitor, whether monitors may act, and the rebalances that they requested within a
    day."""
    return _answer(services, services.acting.state())


@router.patch("")
def switch(body: MonitorBody, services: ServicesDep) -> MonitorAnswer:
    """Allow or forbid monitors to request rebalances. Takes effect at once, applies to every instance and
    survives restarts. Monitors judge and alert regardless."""
    state = services.acting.switch(services.control, body.acting, body.reason, body.requested_by)
    return _answer(services, state)


@router.put("/lease")
def hold(body: LeaseBody, services: ServicesDep) -> LeaseAnswer:
    """Become or remain the active monitor. The lease is available if there is none, or if its holder has not
    renewed it for 30 seconds or its instance has ended. Monitors call this every turn."""
    state = services.acting.hold(services.control, body.holder)
    is_ours = state.lease is not None and state.lease.holder == body.holder
    lease = state.lease.identity if state.lease is not None and is_ours else ""
    return LeaseAnswer(lease=lease, monitor=_answer(services, state))


@router.delete("/lease", responses=problems(409))
def release(
    services: ServicesDep, holder: Annotated[str, Query(description="holder named when the lease was taken")]
) -> MonitorAnswer:
    """Release the lease, so that another monitor becomes active at once."""
    services.acting.release(services.control, holder)
    return _answer(services, services.acting.state())


def _answer(services: Services, state: ActingState) -> MonitorAnswer:
    return MonitorAnswer.from_state(state, services.acting.waiting(state))
