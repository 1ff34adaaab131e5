"""/v1/datastreams/{name}/plan, /v1/plans: plans that are computed, looked at, and applied as they are."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response
from fastapi.concurrency import run_in_threadpool

from api.datastreams.answers import NamePath, located
from api.dependencies import PreviewsDep, ServicesDep
from api.schemas.headers import described
from api.schemas.problems import problems
from api.schemas.proposals import ApplyAnswer, ApplyBody, ProposalAnswer, ProposalBody
from api.services import Services
from mirror.control.commands import TriggerRebalance
from mirror.coordination.operations.operation import waiting
from mirror.coordination.planning import groups_of
from mirror.coordination.proposed.proposal import changes_since
from mirror.coordination.proposed.proposal_store import StoredProposal
from mirror.coordination.stores.requests import ApplyRequest
from mirror.errors import IllegalTransition, NotFound
from mirror.model.identifiers import DatastreamName

router = APIRouter(prefix="/v1", tags=["plans"])
IdPath = Annotated[str, Path(description="the plan's id")]


@router.post("/datastreams/{name}/plan", status_code=201, responses=problems(404, 409, 422))
async def make(
    name: NamePath,
    services: ServicesDep,
    previews: PreviewsDep,
    response: Response,
    body: ProposalBody,
) -> ProposalAnswer:
    """Compute a plan by the loads that the leader knows, and keep it for an hour; nothing is changed. It can
    be applied as it is while it is true."""
    command = TriggerRebalance(DatastreamName(name), body.full, body.requested_by, body.reason)
    request = await run_in_threadpool(services.control.request_of, command)
    answer = await previews.proposal(request)
    response.headers["Location"] = f"/v1/plans/{answer.id}"
    return answer


@router.get("/plans/{identity}", responses=problems(404, 409))
def get(identity: IdPath, services: ServicesDep) -> ProposalAnswer:
    """A plan that was computed, and whether it is still true."""
    stored = _kept(identity, services)
    return ProposalAnswer.from_stored(identity, stored, _changed(stored, services))


@router.post(
    "/plans/{identity}/apply",
    status_code=202,
    responses={202: {"headers": described("Location")}, **problems(404, 409)},
)
def apply(identity: IdPath, services: ServicesDep, response: Response, body: ApplyBody) -> ApplyAnswer:
    """Have exactly this plan put in force by the leader, as one step, if it is still true then; the operation
    and an event say so, or why not. It is applied once: who asks again is answered 409."""
    stored = _kept(identity, services)
    if stored.proposal.asked_by is not None:
        raise IllegalTransition(f"{stored.proposal.asked_by} has had plan {identity} applied already")
    if changed := _changed(stored, services):
        raise IllegalTransition(
            f"plan {identity} is not true any more: {'; '.join(changed)}", advice="compute another one"
        )
    services.control.check_right_to_group(stored.proposal.group)
    if not body.force and _is_blind_over_measured(stored, services):
        raise IllegalTransition(
            f"plan {identity} rests on no measured load, and the plan in force does",
            advice="compute another one when loads are known, or force it",
        )
    who = services.control.caller.signed(body.requested_by)
    request = ApplyRequest(stored.proposal.group, identity, who, services.clock.now_ms())
    waits = services.proposals.ask_for(stored, request)
    services.control.note_asked(waits)
    asked = located(waiting(waits), response)
    sentence = "queued; the leader puts it in force if it is still true"
    return ApplyAnswer(id=identity, sentence=sentence, operation=asked)


def _kept(identity: str, services: Services) -> StoredProposal:
    stored = services.proposals.get(identity)
    if stored.proposal.expires_ms <= services.clock.now_ms():
        raise NotFound(f"plan {identity} has expired", advice="compute another one")
    return stored


def _is_blind_over_measured(stored: StoredProposal, services: Services) -> bool:
    """Return whether a plan that was computed without loads would replace one that was planned by loads."""
    planning = services.assessments().get(stored.proposal.group)
    is_measured = planning is not None and planning.loads_measured_at_ms is not None
    return is_measured and stored.proposal.shown.get("loads_known") is False


def _changed(stored: StoredProposal, services: Services) -> list[str]:
    """As far as can be seen without asking the source; the leader looks at its partitions too."""
    members = groups_of(services.control.list().datastreams).get(stored.proposal.group, ())
    return changes_since(stored.proposal, services.plan(), members, None)
