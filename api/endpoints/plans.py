"""/v1/plan, /v1/rebalance, /v1/events"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.concurrency import run_in_threadpool

from api.dependencies import ReadsDep, ServicesDep, SlowCallsDep
from api.schemas.plans import PlanAnswer, RebalanceAnswer, RebalanceBody, event_answer
from api.schemas.problems import problems
from mirror.control.commands import TriggerRebalance
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1", tags=["plans"])


@router.get("/plan", responses=problems(409))
def plan(reads: ReadsDep) -> PlanAnswer:
    """The plan in force."""
    return PlanAnswer.from_plan(reads.plan(), reads.assessments())


@router.post(
    "/rebalance",
    status_code=202,
    responses={
        200: {"model": RebalanceAnswer, "description": "What it would change."},
        **problems(404, 409, 422),
    },
)
async def rebalance(
    body: RebalanceBody, services: ServicesDep, slow_calls: SlowCallsDep, response: Response
) -> RebalanceAnswer:
    """Ask the leader for a new plan, or report what that would change."""
    command = TriggerRebalance(DatastreamName(body.datastream), body.full, body.requested_by, body.reason)
    if body.dry_run:
        response.status_code = 200
        return await slow_calls.run(
            lambda: RebalanceAnswer.from_decision(services.preview(services.control.request_of(command)))
        )
    identity = await run_in_threadpool(services.control.rebalance, command)
    return RebalanceAnswer(request=identity, sentence="queued; the leader answers with a plan")


@router.get("/events")
def events(
    reads: ReadsDep,
    limit: Annotated[int, Query(ge=1, le=10_000, description="the newest of them")] = 100,
) -> list[dict[str, Any]]:
    """What changed and why, newest publication first."""
    return [event_answer(event) for event in reads.events(limit)]
