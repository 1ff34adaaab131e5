"""Plans that are computed, looked at and applied, on /v1."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from api.schemas.plans import OperationAnswer, PlannedMove, RebalanceAnswer
from mirror.coordination.planning import Decision
from mirror.coordination.proposed.proposal_store import StoredProposal
from mirror.errors import DamagedState
from mirror.model.identifiers import GroupName


class _ProposalModel(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, use_attribute_docstrings=True)


class ProposalBody(_ProposalModel):
    """How a plan is computed."""

    full: bool = False
    """Forget the present placement, as far as that pays."""
    requested_by: str = "REST"
    """Who asks; it goes into the events."""
    reason: str = ""
    """Why; it goes into the events."""


class ApplyBody(_ProposalModel):
    """Who has a plan applied."""

    requested_by: str = "REST"
    """Who asks; it goes into the events."""
    force: bool = False
    """Also a plan that rests on no measured load, over one that does."""


class ProposalAnswer(_ProposalModel):
    """A plan that is not in force: what it would change, what it costs, and why. Rates in bytes per
    second."""

    id: str
    """For `/v1/plans/{id}`."""
    datastream: str
    """The datastream or the group whose tasks are planned."""
    epoch: int
    """Of the plan in force that it would follow."""
    expires_ms: int
    """Until when it is kept at most (epoch ms)."""
    asked_by: str | None = None
    """Who has had it applied; null: nobody has."""
    changed: list[str] = []
    """What is not any more as it was; while this is empty it can be applied."""
    tasks: int
    """Tasks of the datastream with this plan."""
    required_tasks: int | None = None
    """Tasks that capacity asks for."""
    task_lower_bound: int | None = None
    """No plan that fits has fewer tasks."""
    moved: float | None = None
    """What the partitions carry that move; null: it is not known."""
    moved_lower_bound: float | None = None
    """No plan that is as good moves less."""
    loads_known: bool
    """Whether it rests on loads that were measured."""
    sentence: str
    """What it would do."""
    reasons: list[str] = []
    """Why there are this many tasks."""
    moves: list[PlannedMove] = []
    """Partitions that would change their task or instance."""

    @classmethod
    def from_stored(cls, identity: str, stored: StoredProposal, changed: list[str]) -> ProposalAnswer:
        """The JSON form. Raises DamagedState."""
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
            raise DamagedState(f"plan {identity} cannot be shown", advice="compute another one") from error


def shown_of(decision: Decision, group: GroupName, tasks: int) -> dict[str, Any]:
    """What is kept with a plan for people."""
    told, answer = RebalanceAnswer.from_decision(decision), decision.group_plans.get(group)
    known = decision.are_loads_known and answer is not None
    return {
        "tasks": tasks,
        "required_tasks": told.required_tasks,
        "task_lower_bound": answer.task_lower_bound if answer is not None else None,
        "moved": answer.moved_bytes_per_second if known and answer is not None else None,
        "moved_lower_bound": answer.moved_lower_bound_bytes_per_second
        if known and answer is not None
        else None,
        "loads_known": decision.are_loads_known,
        "sentence": told.sentence,
        "reasons": told.reasons,
        "moves": [one.model_dump() for one in told.moves],
    }


class ApplyAnswer(_ProposalModel):
    """A plan that the leader will put in force."""

    id: str
    """The plan."""
    sentence: str
    """What happens now."""
    operation: OperationAnswer
    """How far that is."""
