"""Applies a reviewed plan as one step of the leader. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.bulkheads import Bulkhead
from mirror.coordination.plan_decision import Decision, FleetState
from mirror.coordination.plan_reasons import move_reasons
from mirror.coordination.proposals.proposal import Proposal, answer_shown, applied
from mirror.coordination.proposals.proposal_store import ProposalStore
from mirror.coordination.stores.requests import ApplyRequest
from mirror.errors import CoordinationError, IllegalTransition, Unreachable
from mirror.model.plan import Plan, moves_between


@dataclass(frozen=True)
class Application:
    """Outcome of a request to apply a reviewed plan.

    `decision`: decision to publish, or None. `failure`: error, None if the request succeeds.
    """

    request: ApplyRequest
    decision: Decision | None = None
    failure: Exception | None = None

    @property
    def sentence(self) -> str:
        """Result of the request in one sentence. Valid only after the decision is published."""
        if self.decision is not None:
            return self.decision.sentence
        return f"plan {self.request.proposal} is in effect"


def next_application(fleet: FleetState, proposals: ProposalStore, now_ms: int) -> Application | None:
    """Return the result of the first queued request to apply a plan, or None if there is no such request."""
    request = next((request for request in fleet.requests if isinstance(request, ApplyRequest)), None)
    if request is None:
        return None
    with Bulkhead(through=(Unreachable, CoordinationError)) as reading:
        return application_of(fleet, proposals.get(request.proposal).proposal, request, now_ms)
    return Application(request, failure=reading.failure)


def application_of(fleet: FleetState, proposal: Proposal, request: ApplyRequest, now_ms: int) -> Application:
    """Return the result of a request to apply a reviewed plan.

    The plan may already be in effect, if an earlier leader failed after publishing it.
    """
    if _is_in_force(proposal, fleet.plan):
        return Application(request)
    found = applied(fleet, proposal, request, now_ms)
    if isinstance(found, list):
        return Application(request, failure=IllegalTransition("; ".join(found)))
    moves = moves_between(fleet.plan.tasks, found.tasks)
    shown = {proposal.group: answer_shown(proposal)}
    reasons = move_reasons(moves, shown, fleet.plan, fleet.live)
    return Application(request, Decision(found, found.reason, moves, shown, move_reasons=reasons))


def _is_in_force(proposal: Proposal, plan: Plan) -> bool:
    tasks = plan.by_task
    is_placed = all(tasks.get(placement.task) == placement for placement in proposal.placed)
    is_newer = plan.epoch > proposal.epoch or not (proposal.placed or proposal.gone)
    return is_newer and is_placed and proposal.gone.isdisjoint(tasks)
