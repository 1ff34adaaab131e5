"""/v1/plan, /v1/plans, /v1/rebalance, /v1/events: the current plan, proposed plans, rebalances and events."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.access.gate import admission_of, quota_holders_of
from api.access.rights import Action
from api.fleet.dependencies import EventFeedDep, NamePath, ReadsDep, ServicesDep
from api.fleet.reads import MOST_EVENTS
from api.http.event_streams import EXAMPLE, MEDIA_TYPE, EventStream, event_answer
from api.http.problems import described, problems
from api.http.slow_calls import large_response
from api.resources.datastreams.dry_runs import DryRunsDep
from api.resources.operations import located
from api.resources.plan_answers import (
    ApplyAnswer,
    ApplyBody,
    PlanAnswer,
    ProposalAnswer,
    ProposalBody,
    RebalanceAnswer,
    RebalanceBody,
)
from api.services import Services
from mirror.control.commands import TriggerRebalance
from mirror.control.event_positions import POSITION, position_of
from mirror.coordination.operation import waiting
from mirror.coordination.plan_decision import groups_of
from mirror.coordination.proposals.proposal import changes_since
from mirror.coordination.proposals.proposal_store import StoredProposal
from mirror.coordination.stores.requests import ApplyRequest
from mirror.errors import IllegalTransition, NotFound
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1", tags=["plans"])


@router.get("/plan", response_model=PlanAnswer, responses=problems(409))
def plan(
    reads: ReadsDep,
    response: Response,
    datastream: Annotated[
        str | None, Query(description="only tasks of this datastream and its group")
    ] = None,
    tasks: Annotated[bool, Query(description="include the tasks, which list every partition")] = True,
) -> Response:
    """Return the current plan."""
    found = PlanAnswer.from_plan(reads.plan(), reads.assessments(), with_tasks=tasks)
    if datastream is None:
        return large_response(found, response)
    group = reads.group_of(datastream)
    shown = found.model_copy(
        update={
            "tasks": [task for task in found.tasks if task.datastream == group],
            "groups": [answer for answer in found.groups if answer.datastream == group],
        }
    )
    return large_response(shown, response)


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
    """Request a new plan from the leader. With `dry_run`, only return the changes that a plan with the
    leader's current loads would make."""
    command = TriggerRebalance(DatastreamName(body.datastream), body.full, body.requested_by, body.reason)
    if body.dry_run:
        response.status_code = 200
        return await dry_runs.rebalance(lambda: services.control.request_of(command))
    ask = partial(services.acting.rebalance, services.control, body.lease) if body.lease else None
    queued = waiting(await run_in_threadpool(ask or services.control.rebalance, command))
    operation = located(queued, response)
    return RebalanceAnswer(request=queued.id, sentence=queued.sentence, operation=operation)


@router.get(
    "/events", response_model=list[dict[str, Any]], responses={200: {"content": {MEDIA_TYPE: EXAMPLE}}}
)
def events(
    request: Request,
    reads: ReadsDep,
    feed: EventFeedDep,
    limit: Annotated[int, Query(ge=1, le=MOST_EVENTS, description="maximum number of events")] = 100,
    datastream: Annotated[
        str | None, Query(description="only events of this datastream or its group")
    ] = None,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            pattern=f"^{POSITION}$",
            description="for a stream: start after this event; 0-0: all stored events",
        ),
    ] = None,
) -> list[dict[str, Any]] | EventStream:
    """Return changes and their reasons, newest first.

    With `Accept: text/event-stream`, the response is a stream of Server-Sent Events, oldest first, starting
    now or after `Last-Event-ID`. An event `gap` reports missed events: the reason, and whether the event log
    was replaced (`is_reset`), as after the loss of the coordination store; all events of the new log follow.
    The stream ends when the credentials of the request expire.
    """
    only = None if datastream is None else reads.names_of(datastream)
    if MEDIA_TYPE in accept:
        position = position_of(last_event_id) if last_event_id else None
        is_admitted = admission_of(request, Action.READ)
        return EventStream(feed, position, only, is_admitted, quota_holders_of(request))
    if only is None:
        return [event_answer(event) for event in reads.events(limit)]
    mine = [event for event in reads.events(MOST_EVENTS) if event.datastream in only]
    return [event_answer(event) for event in mine[:limit]]


IdPath = Annotated[str, Path(description="id of the plan")]


@router.post("/datastreams/{name}/plan", status_code=201, responses=problems(404, 409, 422))
async def make(
    name: NamePath, services: ServicesDep, dry_runs: DryRunsDep, response: Response, body: ProposalBody
) -> ProposalAnswer:
    """Compute a plan with the leader's current loads, and store it without applying it. For an hour, you can
    apply the plan if its inputs have not changed."""
    command = TriggerRebalance(DatastreamName(name), body.full, body.requested_by, body.reason)
    answer = await dry_runs.plan(lambda: services.control.request_of(command))
    response.headers["Location"] = f"/v1/plans/{answer.id}"
    return answer


@router.get("/plans/{identity}", response_model=ProposalAnswer, responses=problems(404, 409))
def get(identity: IdPath, services: ServicesDep, response: Response) -> Response:
    """Return a proposed plan, and whether its inputs have changed since its computation."""
    stored = _kept(identity, services)
    found = ProposalAnswer.from_stored(identity, stored, _changed(stored, services))
    return large_response(found, response)


@router.post(
    "/plans/{identity}/apply",
    status_code=202,
    responses={202: {"headers": described("Location")}, **problems(404, 409)},
)
def apply(identity: IdPath, services: ServicesDep, response: Response, body: ApplyBody) -> ApplyAnswer:
    """Apply exactly this proposed plan.

    The leader applies the plan in one step, if its inputs are unchanged. The operation and an event report
    the result. A repeated request returns 409.
    """
    stored = _kept(identity, services)
    stored.check_not_applied()
    if changed := _changed(stored, services):
        raise IllegalTransition(
            f"plan {identity} is outdated: {'; '.join(changed)}", advice="compute a new plan"
        )
    services.control.check_right_to_group(stored.proposal.group)
    if not body.force and _is_blind_over_measured(stored, services):
        raise IllegalTransition(
            f"plan {identity} is not based on measured loads, but the current plan is",
            advice="compute a new plan once loads are known, or set force to true",
        )
    requester = services.control.caller.signed(body.requested_by)
    request = ApplyRequest(stored.proposal.group, identity, requester, services.clock.now_ms())
    waits = services.proposals.ask_for(stored, request)
    services.control.record_request(waits)
    queued = located(waiting(waits), response)
    sentence = "queued; the leader applies it if its inputs are unchanged"
    return ApplyAnswer(id=identity, sentence=sentence, operation=queued)


def _kept(identity: str, services: Services) -> StoredProposal:
    stored = services.proposals.get(identity)
    if stored.proposal.expires_ms <= services.clock.now_ms():
        raise NotFound(f"plan {identity} has expired", advice="compute a new plan")
    return stored


def _is_blind_over_measured(stored: StoredProposal, services: Services) -> bool:
    """Return whether a plan without measured loads would replace a plan that is based on measured loads."""
    planning = services.assessments().get(stored.proposal.group)
    is_measured = planning is not None and planning.loads_measured_at_ms is not None
    return is_measured and stored.proposal.shown.get("loads_known") is False


def _changed(stored: StoredProposal, services: Services) -> list[str]:
    """Return the inputs of a proposed plan that have changed since its computation, without contacting the
    source.

    The leader also checks the partitions of the source.
    """
    members = groups_of(services.control.list().datastreams).get(stored.proposal.group, ())
    return changes_since(stored.proposal, services.plan(), members, None)
