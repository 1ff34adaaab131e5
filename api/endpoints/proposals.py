"""/v1/datastreams/{name}/plan, /v1/plans: plans to compute, review, and apply unchanged."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Response

from api.datastreams.answers import NamePath, located
from api.dependencies import DryRunsDep, ServicesDep
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
IdPath = Annotated[str, Path(description="id of the plan")]


@router.post("/datastreams/{name}/plan", status_code=201, responses=problems(404, 409, 422))
async def make(
    name: NamePath,
    services: ServicesDep,
    dry_runs: DryRunsDep,
    response: Response,
    body: ProposalBody,
) -> ProposalAnswer:
    """Compute a plan by the loads known to the leader, and store it for an hour without changing anything.
    The plan can be applied while its inputs are unchanged."""
    command = TriggerRebalance(DatastreamName(name), body.full, body.requested_by, body.reason)
    answer = await dry_runs.plan(lambda: services.control.request_of(command))
    response.headers["Location"] = f"/v1/plans/{answer.id}"
    return answer


@router.get("/plans/{identity}", responses=problems(404, 409))
def get(identity: IdPath, services: ServicesDep) -> ProposalAnswer:
    """Return a computed plan, and whether its inputs are unchanged."""
    stored = _kept(identity, services)
    return ProposalAnswer.from_stored(identity, stored, _changed(stored, services))


@router.post(
    "/plans/{identity}/apply",
    status_code=202,
    responses={202: {"headers": described("Location")}, **problems(404, 409)},
)
def apply(identity: IdPath, services: ServicesDep, response: Response, body: ApplyBody) -> ApplyAnswer:
    """Queue exactly this plan for the leader, which puts it in force in one step if its inputs are still
    unchanged; the operation and an event report the result. A plan can be applied only once; repeated
    requests return 409."""
    stored = _kept(identity, services)
    if stored.proposal.asked_by is not None:
        raise IllegalTransition(f"plan {identity} was already applied by {stored.proposal.asked_by}")
    if changed := _changed(stored, services):
        raise IllegalTransition(
            f"plan {identity} is outdated: {'; '.join(changed)}", advice="compute a new one"
        )
    services.control.check_right_to_group(stored.proposal.group)
    if not body.force and _is_blind_over_measured(stored, services):
        raise IllegalTransition(
            f"plan {identity} is not based on measured loads, but the plan that it would replace is",
            advice="compute a new one once loads are known, or set force to true",
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
        raise NotFound(f"plan {identity} has expired", advice="compute a new one")
    return stored


def _is_blind_over_measured(stored: StoredProposal, services: Services) -> bool:
    """Return whether a plan computed without loads would replace a plan based on loads."""
    planning = services.assessments().get(stored.proposal.group)
    is_measured = planning is not None and planning.loads_measured_at_ms is not None
    return is_measured and stored.proposal.shown.get("loads_known") is False


def _changed(stored: StoredProposal, services: Services) -> list[str]:
    """Return the changed inputs, without contacting the source; the leader checks its partitions as well."""
    members = groups_of(services.control.list().datastreams).get(stored.proposal.group, ())
    return changes_since(stored.proposal, services.plan(), members, None)
