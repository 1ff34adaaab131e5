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
    """Which monitor judges, whether monitors may act, and the rebalances that they have asked for in a
    day."""
    return _answer(services, services.acting.state())


@router.patch("")
def switch(body: MonitorBody, services: ServicesDep) -> MonitorAnswer:
    """Let monitors ask for rebalances, or forbid it, at once and until somebody says otherwise: whatever runs
    where, and whatever is started again. They judge and call people all the same."""
    state = services.acting.switch(services.control, body.acting, body.reason, body.requested_by)
    return _answer(services, state)


@router.put("/lease")
def hold(body: LeaseBody, services: ServicesDep) -> LeaseAnswer:
    """Be the monitor that judges, or stay it: where nobody is, where the one that was has not said so for 30
    seconds, or ended with its instance. For monitors, at each of their turns."""
    state = services.acting.hold(services.control, body.holder)
    is_ours = state.lease is not None and state.lease.holder == body.holder
    lease = state.lease.identity if state.lease is not None and is_ours else ""
    return LeaseAnswer(lease=lease, monitor=_answer(services, state))


@router.delete("/lease", responses=problems(409))
def release(
    services: ServicesDep, holder: Annotated[str, Query(description="as it has said when it took it")]
) -> MonitorAnswer:
    """Let another monitor judge at once."""
    services.acting.release(services.control, holder)
    return _answer(services, services.acting.state())


def _answer(services: Services, state: ActingState) -> MonitorAnswer:
    return MonitorAnswer.from_state(state, services.acting.waiting(state))
