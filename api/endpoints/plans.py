"""/v1/plan, /v1/advice, /v1/rebalance, /v1/events"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.access.gate import admission_of, quota_holders_of
from api.access.rights import Action
from api.calls.event_stream import EXAMPLE, MEDIA_TYPE, EventStream
from api.datastreams.answers import located
from api.dependencies import DryRunsDep, EventFeedDep, ReadsDep, ServicesDep
from api.loads.advice import AdviceAnswer
from api.schemas.headers import described
from api.schemas.plans import PlanAnswer, RebalanceAnswer, RebalanceBody, event_answer
from api.schemas.problems import problems
from mirror.control.commands import TriggerRebalance
from mirror.control.event_positions import POSITION, position_of
from mirror.coordination.operations.operation import waiting
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1", tags=["plans"])
_ALL_EVENTS: Final = 10_000


@router.get("/plan", responses=problems(409))
def plan(
    reads: ReadsDep,
    datastream: Annotated[
        str | None, Query(description="only tasks of this datastream and its group")
    ] = None,
    tasks: Annotated[bool, Query(description="include the tasks, which list every partition")] = True,
) -> PlanAnswer:
    """Return the plan in force."""
    found = PlanAnswer.from_plan(reads.plan(), reads.assessments(), with_tasks=tasks)
    if datastream is None:
        return found
    group = reads.group_of(datastream)
    return found.model_copy(
        update={
            "tasks": [task for task in found.tasks if task.datastream == group],
            "groups": [one for one in found.groups if one.datastream == group],
        }
    )


@router.get("/advice")
def advice(reads: ReadsDep, services: ServicesDep) -> AdviceAnswer:
    """Return the capacity that the service needs now and in the next hours, as last computed by the leader:
    once an hour, for now and a day ahead. `required_instances` and `required_tasks` are stable enough for an
    autoscaler; if one is null, `why` names the missing input. Any instance responds."""
    return AdviceAnswer.from_advice(reads.advice(), services.clock.now_ms())


@router.post(
    "/rebalance",
    status_code=202,
    responses={
        200: {"model": RebalanceAnswer, "description": "Changes of a dry run."},
        202: {"headers": described("Location")},
        **problems(404, 409, 422),
    },
)
async def rebalance(
    body: RebalanceBody, services: ServicesDep, dry_runs: DryRunsDep, response: Response
) -> RebalanceAnswer:
    """Request a new plan from the leader, or report its changes by the loads known to the leader."""
    command = TriggerRebalance(DatastreamName(body.datastream), body.full, body.requested_by, body.reason)
    if body.dry_run:
        response.status_code = 200
        return await dry_runs.rebalance(lambda: services.control.request_of(command))
    ask = partial(services.acting.rebalance, services.control, body.lease) if body.lease else None
    queued = waiting(await run_in_threadpool(ask or services.control.rebalance, command))
    operation = located(queued, response)
    return RebalanceAnswer(request=queued.identity, sentence=queued.sentence, operation=operation)


@router.get(
    "/events", response_model=list[dict[str, Any]], responses={200: {"content": {MEDIA_TYPE: EXAMPLE}}}
)
def events(
    request: Request,
    reads: ReadsDep,
    feed: EventFeedDep,
    limit: Annotated[int, Query(ge=1, le=10_000, description="number of newest events")] = 100,
    datastream: Annotated[
        str | None, Query(description="only events of this datastream or its group")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern=f"^{POSITION}$",
            description="position of a stream: start after this event; 0-0: all stored events",
        ),
    ] = None,
) -> list[dict[str, Any]] | EventStream:
    """Return changes and their reasons, newest first. With `Accept: text/event-stream`, a stream of
    Server-Sent Events, oldest first, from now or after `Last-Event-ID`; an event `gap` reports missed events.
    The stream ends when the credentials of the call expire."""
    only = None if datastream is None else reads.names_of(datastream)
    if MEDIA_TYPE in accept:
        position = position_of(last_event_id) if last_event_id else None
        is_admitted = admission_of(request, Action.READ)
        return EventStream(feed, position, only, is_admitted, quota_holders_of(request))
    if only is None:
        return [event_answer(event) for event in reads.events(limit)]
    mine = [event for event in reads.events(_ALL_EVENTS) if event.datastream in only]
    return [event_answer(event) for event in mine[:limit]]
