"""Plans to compute, review and apply, on /v1."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from api.schemas.plans import LoadsFrom, OperationAnswer, PlannedMove, RebalanceAnswer, TaskChangeAnswer
from mirror.coordination.planning import Decision
from mirror.coordination.proposed.proposal_store import StoredProposal
from mirror.errors import DamagedState
from mirror.model.identifiers import GroupName


class _ProposalModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class ProposalBody(_ProposalModel):
    """Options for computing a plan."""

    full: bool = False
    """Ignore the current placement, if that pays off."""
    requested_by: str = "REST"
    """Requester, recorded in the events."""
    reason: str = ""
    """Reason, recorded in the events."""


class ApplyBody(_ProposalModel):
    """Request to apply a plan."""

    requested_by: str = "REST"
    """Requester, recorded in the events."""
    force: bool = False
    """Apply a plan without measured loads even if the plan that it replaces is based on them."""


class ProposalAnswer(_ProposalModel):
    """Proposed plan: its changes, their cost, and the reasons. Rates are in bytes per second."""

    id: str
    """Id for `/v1/plans/{id}`."""
    datastream: str
    """Datastream or group whose tasks are planned."""
    epoch: int
    """Epoch of the plan in force that it would follow."""
    expires_ms: int
    """Time at which the proposal expires at the latest (epoch ms)."""
    asked_by: str | None = None
    """Requester of its application; null: not requested."""
    changed: list[str] = []
    """Inputs that have changed since; the plan can be applied only while this is empty."""
    tasks: int
    """Number of tasks of the datastream with this plan."""
    required_tasks: int | None = None
    """Number of tasks required by capacity."""
    task_lower_bound: int | None = None
    """Lower bound on the number of tasks of any plan that fits."""
    moved: float | None = None
    """Load of the partitions that move; null: unknown."""
    moved_lower_bound: float | None = None
    """Lower bound on the moved load of any plan of equal quality."""
    loads_known: bool
    """True if the plan is based on measured loads."""
    loads_from: LoadsFrom = "leader"
    """`leader`, which computed it with its loads; `stored`: the leader did not respond, and these are the
    last loads that it stored for its successor."""
    sentence: str
    """Summary of the changes."""
    reasons: list[str] = []
    """Explanation of the number of tasks."""
    moves: list[PlannedMove] = []
    """Partitions that would change their task or instance."""
    task_changes: list[TaskChangeAnswer] = []
    """Tasks that the plan adds or removes."""

    @classmethod
    def from_stored(cls, identity: str, stored: StoredProposal, changed: list[str]) -> ProposalAnswer:
        """Return the JSON form. Raises DamagedState."""
        proposal = stored.proposal
        known = {
            "id": identity,
            "datastream": proposal.group,
            "epoch": proposal.epoch,
            "expires_ms": proposal.expires_ms,
            "asked_by": proposal.asked_by,
            "changed": changed,
        }
        try:
            return cls.model_validate({**proposal.shown, **known})
        except ValidationError as error:
            raise DamagedState(f"cannot read plan {identity}", advice="compute a new one") from error


def shown_of(decision: Decision, group: GroupName, tasks: int) -> dict[str, Any]:
    """Return the description to store with a plan."""
    rebalance, answer = RebalanceAnswer.from_decision(decision), decision.group_plans.get(group)
    known = decision.are_loads_known and answer is not None
    return {
        "tasks": tasks,
        "required_tasks": rebalance.required_tasks,
        "task_lower_bound": answer.task_lower_bound if answer is not None else None,
        "moved": answer.moved_bytes_per_second if known and answer is not None else None,
        "moved_lower_bound": answer.moved_lower_bound_bytes_per_second
        if known and answer is not None
        else None,
        "loads_known": decision.are_loads_known,
        "sentence": rebalance.sentence,
        "reasons": rebalance.reasons,
        "moves": [move.model_dump() for move in rebalance.moves],
        "task_changes": [change.model_dump() for change in rebalance.task_changes],
    }


class ApplyAnswer(_ProposalModel):
    """Plan queued for the leader."""

    id: str
    """Id of the plan."""
    sentence: str
    """Next step."""
    operation: OperationAnswer
    """Progress of the application."""
