"""Plans computed by this instance without publishing them; sent to other instances if it is the leader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from api.schemas.plans import RebalanceAnswer
from api.schemas.proposals import ProposalAnswer, shown_of
from api.services import Services
from mirror.coordination.proposed.proposal import propose
from mirror.coordination.proposed.proposal_store import StoredProposal
from mirror.coordination.stores.requests import RebalanceRequest
from mirror.errors import InvalidRequest
from mirror.model.identifiers import GroupName

PREVIEW: Final = "rebalance-preview"
PROPOSAL: Final = "rebalance-proposal"


def preview_of(services: Services, request: RebalanceRequest, why: str) -> RebalanceAnswer:
    """Return the changes that a rebalance would make. `why`: why they were not computed by the leader; empty
    if they were."""
    found = RebalanceAnswer.from_decision(services.preview(request))
    return found.model_copy(update={"reasons": [*found.reasons, why]}) if why else found


def proposal_of(services: Services, request: RebalanceRequest, why: str) -> ProposalAnswer:
    """Same, stored for an hour as a proposal."""
    world, decision = services.preview_world(request)
    plan, group = decision.plan or world.plan, request.group
    shown = shown_of(decision, group, len(plan.of_group(group)))
    if why:
        shown["reasons"] = [*shown["reasons"], why]
    proposal = propose(world, group, plan, shown, services.clock.now_ms())
    identity = services.proposals.add(proposal)
    return ProposalAnswer.from_stored(identity, StoredProposal(identity, proposal, 0), [])


def told_preview(services: Services, parameters: Mapping[str, str]) -> Any:
    """Return a preview to another instance, which has checked the permissions of the caller."""
    return _told(services, parameters, preview_of)


def told_proposal(services: Services, parameters: Mapping[str, str]) -> Any:
    """Return a proposal to another instance, which has checked the permissions of the caller."""
    return _told(services, parameters, proposal_of)


def _told(
    services: Services,
    parameters: Mapping[str, str],
    compute: Callable[[Services, RebalanceRequest, str], BaseModel],
) -> Any:
    """Return the response as JSON, or None unless this instance is the leader. Raises InvalidRequest,
    Unreachable."""
    if not services.status.is_leading:
        return None
    try:
        group, is_full = GroupName(parameters["group"]), parameters["full"] == "1"
        requester, why = parameters["requested_by"], parameters["reason"]
    except KeyError as error:
        raise InvalidRequest(f"missing parameter {error.args[0]}") from error
    request = RebalanceRequest(group, is_full, requester, why, services.clock.now_ms())
    return compute(services, request, "").model_dump(mode="json")
