"""Responses about the current plan and proposed plans: their tasks, moves and reasons, and operations.

Commands use these models, so this module does not import FastAPI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from api.http.problems import RecordAnswer, SharedFields, StrictModel, by_value
from mirror.coordination.monitors.effect import effect_of
from mirror.coordination.operation import Operation, OperationKind, OperationState
from mirror.coordination.plan_decision import Decision
from mirror.coordination.proposals.proposal_store import StoredProposal
from mirror.errors import DamagedState
from mirror.instance.loads.assessments import Assessment
from mirror.model.capacity.capacity import CapacityInUse, CapacityOrigin
from mirror.model.identifiers import GroupName
from mirror.model.plan import Move, Plan
from mirror.model.reasons import reason_of

LoadsFrom = Literal["leader", "stored"]
"""Origin of the loads of a dry run."""


@dataclass(frozen=True)
class OperationAnswer(Operation, RecordAnswer):
    """Long-running request of a caller. Times are epoch ms."""

    DESCRIPTIONS: ClassVar = {
        "id": "Id for `/v1/operations/{operation}`.",
        "kind": "Kind of request; `other`: this instance cannot read the request.",
        "datastream": "Datastream; for a request that is planned, the group whose tasks are planned.",
        "state": (
            "`queued`: the leader has not processed it; `running`: tasks are being stopped; `done`: the "
            "current plan implements it, or no longer contains the stopped or deleted datastream; "
            "`failed`: it was not carried out."
        ),
        "requested_by": "Requester; empty if the request named none.",
        "created_ms": "Time of the request (epoch ms); null if not recorded.",
        "finished_ms": "Time at which the operation finished (epoch ms); null if it has not, or is unknown.",
        "sentence": "Progress or result, or reason of a failure.",
        "plan_epoch": (
            "Epoch of the plan that implements the request, once done; null for a stop and a deletion."
        ),
    }

    kind: Annotated[OperationKind, by_value(OperationKind)]
    state: Annotated[OperationState, by_value(OperationState)]


class TaskAnswer(BaseModel):
    """A task. `partitions` are sorted and have the form `topic-number`."""

    task: str
    datastream: str
    instance: str | None
    partitions: list[str]


@dataclass(frozen=True)
class CapacityAnswer(CapacityInUse, RecordAnswer):
    """Capacity of a task on which planning is based, and the learned capacity even if it is not used."""

    DESCRIPTIONS: ClassVar = {
        "origin": (
            "Origin of the capacity: the settings; the `placement` of the datastream; the copy costs "
            "measured on the instances; the value of the settings until a capacity is learned."
        ),
        "bytes_per_second": "Capacity of one task.",
        "messages_per_second": "Capacity of one task; null if only bytes count.",
        "utilisation_percent": "Share of the capacity that placement fills.",
        "why": "Explanation of the capacity.",
        "learned_bytes_per_second": "Measured rate at which one core copies; null if not learned yet.",
        "low": "Learned rate minus twice its standard error, in bytes per second.",
        "high": "Learned rate plus twice its standard error, in bytes per second.",
        "learned_messages_per_second": "Message rate that corresponds to `learned_bytes_per_second`.",
        "observations": "Number of intervals of busy workers from which the rate was learned.",
        "observed_seconds": "Total length of the observed intervals.",
        "bytes_per_batch": "Mean size of the observed batches, as fetched.",
        "records_per_batch": "Mean number of records of the observed batches.",
        "passthrough": "Share of the observed batches that were copied without decompression.",
    }

    origin: Annotated[CapacityOrigin, by_value(CapacityOrigin)]


@dataclass(frozen=True)
class PlanningAnswer(Assessment, RecordAnswer):
    """Result of the latest planning run of a group of datastreams, even if it changed nothing.

    Rates are in bytes per second. `loads_measured_at_ms`: null if no load was known. `unknown`: number of
    partitions with unknown load. `lower_bounds`: number of partitions that were behind and may have a higher
    load. `cut_short`: number of searches that reached their time limit, so that the same input can result in
    a different plan. `capacity`: task capacity used for planning; null if not recorded.
    """

    capacity: CapacityAnswer | None = None


@dataclass(frozen=True, kw_only=True)
class GroupAnswer(PlanningAnswer):
    """Result of the latest planning run of a group of datastreams; `datastream` is the group's name."""

    datastream: str


class PlanAnswer(BaseModel):
    """The current plan, and the result of the latest planning run of each group."""

    epoch: int
    created_ms: int
    reason: str
    tasks: list[TaskAnswer]
    groups: list[GroupAnswer] = []

    @classmethod
    def from_plan(
        cls, plan: Plan, assessments: Mapping[GroupName, Assessment], *, with_tasks: bool = True
    ) -> PlanAnswer:
        """Return the current plan as a response."""
        tasks = [
            TaskAnswer(
                task=placement.task,
                datastream=placement.group,
                instance=placement.instance,
                partitions=[str(partition) for partition in sorted(placement.partitions)],
            )
            for placement in (plan.tasks if with_tasks else ())
        ]
        groups = [
            GroupAnswer.of(assessment, datastream=name) for name, assessment in sorted(assessments.items())
        ]
        return cls(
            epoch=plan.epoch, created_ms=plan.created_ms, reason=plan.reason, tasks=tasks, groups=groups
        )


class TaskChangeAnswer(BaseModel):
    """A task that a plan adds or removes, with the reason."""

    datastream: str
    task: str
    change: Literal["added", "removed"]
    reason: str

    @classmethod
    def of(cls, decision: Decision) -> list[TaskChangeAnswer]:
        """Return the tasks that a planning decision adds or removes."""
        return [
            cls(
                datastream=change.group,
                task=change.task,
                change="added" if change.is_added else "removed",
                reason=change.reason,
            )
            for change in decision.task_changes
        ]


class PlannedMove(BaseModel):
    """A partition that a plan moves to another task or instance."""

    datastream: str
    partition: str
    from_task: str | None
    to_task: str | None
    from_instance: str | None
    to_instance: str | None
    reason: str

    @classmethod
    def from_move(cls, move: Move, reason: str) -> PlannedMove:
        """Return a move as a response."""
        return cls(
            datastream=move.group,
            partition=str(move.partition),
            from_task=move.from_task,
            to_task=move.to_task,
            from_instance=move.from_instance,
            to_instance=move.to_instance,
            reason=reason,
        )


class RebalanceBody(StrictModel):
    """Request for a new plan of one datastream.

    `full`: ignore the current placement. `dry_run`: only report the changes. `lease`: lease of the requesting
    monitor; the request is rejected with 409 if that monitor no longer has the lease or must not act.
    """

    datastream: str
    full: bool = False
    dry_run: bool = False
    requested_by: str = "REST"
    reason: str = "asked for"
    lease: str = ""


class EffectAnswer(BaseModel):
    """Effect of a dry run on the load of tasks.

    Rates are in bytes per second, null if unknown. `moved`: load of the partitions that move.
    `fullest_before`, `fullest_after`: load of the fullest task before and after the plan. `overloaded_after`:
    number of tasks that would still exceed their capacity.
    """

    partitions: int
    moved: float | None
    fullest_before: float | None
    fullest_after: float | None
    overloaded_after: int


class PlanChanges(SharedFields):
    """Changes made by a plan."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    required_tasks: int | None = None
    """Number of tasks required by capacity."""
    reasons: list[str] = Field(default=[])
    """Explanation of the number of tasks."""
    moves: list[PlannedMove] = Field(default=[])
    """Partitions that would change their task or instance."""
    task_changes: list[TaskChangeAnswer] = Field(default=[])
    """Tasks that the plan adds or removes."""


class RebalanceAnswer(PlanChanges):
    """Result of a rebalance request.

    `request`: id of the queued request; empty for a dry run, which reports the moves instead. `operation`:
    operation that reports the progress of the request; null for a dry run. `effect`: effect of a dry run on
    the load of tasks; null otherwise. `reasons`: explanation of the number of tasks and its distance from the
    proven optimum. `loads_known`: true if a dry run is based on measured loads; if false, an empty list of
    moves does not prove that moves would not help. `loads_from`: for a dry run, `leader` if the leader
    computed it with its loads; `stored` if the leader did not respond, and the last loads that it stored for
    its successor were used. `task_changes`: tasks that a dry run would add or remove.
    """

    request: str
    sentence: str
    loads_known: bool | None = None
    loads_from: LoadsFrom | None = None
    effect: EffectAnswer | None = None
    operation: OperationAnswer | None = None

    @classmethod
    def from_decision(cls, decision: Decision) -> RebalanceAnswer:
        """Return the result of a rebalance's dry run."""
        reasons = decision.move_reasons
        required = [group_plan.required_tasks for group_plan in decision.group_plans.values()]
        return cls(
            request="",
            sentence=decision.sentence,
            loads_known=decision.are_loads_known,
            loads_from="leader",
            required_tasks=max(required, default=None),
            reasons=[
                *(reason for group_plan in decision.group_plans.values() for reason in group_plan.reasons),
                *(
                    f"{group} was not planned: {reason_of(error)}"
                    for group, error in decision.problems.items()
                ),
            ],
            moves=[
                PlannedMove.from_move(move, reasons[move.group, move.partition]) for move in decision.moves
            ],
            task_changes=TaskChangeAnswer.of(decision),
            effect=EffectAnswer(**asdict(effect_of(decision))),
        )


class ProposalBody(StrictModel):
    """Options for computing a proposed plan."""

    full: bool = False
    """Ignore the current placement if the capacity that this frees justifies the additional moves."""
    requested_by: str = "REST"
    """Requester, recorded in the events."""
    reason: str = ""
    """Reason, recorded in the events."""


class ApplyBody(StrictModel):
    """Request to apply a proposed plan."""

    requested_by: str = "REST"
    """Requester, recorded in the events."""
    force: bool = False
    """Apply a plan without measured loads even if the current plan is based on measured loads."""


class ProposalAnswer(StrictModel, PlanChanges):
    """Proposed plan: its changes, their cost, and the reasons. Rates are in bytes per second."""

    id: str
    """Id for `/v1/plans/{id}`."""
    datastream: str
    """Datastream or group whose tasks are planned."""
    epoch: int
    """Epoch of the current plan, which this plan would replace."""
    expires_ms: int
    """Time at which the proposal expires at the latest (epoch ms)."""
    asked_by: str | None = None
    """User who requested to apply the plan; null if no user has requested it."""
    changed: list[str] = Field(default=[])
    """Inputs that have changed since the plan was computed. The plan can be applied only while this list is
    empty."""
    tasks: int
    """Number of tasks of the datastream with this plan."""
    task_lower_bound: int | None = None
    """Lower bound on the number of tasks of any feasible plan."""
    moved: float | None = None
    """Bytes/s of the partitions that move; null if unknown."""
    moved_lower_bound: float | None = None
    """Lower bound on the bytes/s that any plan of equal quality moves; null if unknown."""
    loads_known: bool
    """True if the plan is based on measured loads."""
    loads_from: LoadsFrom = "leader"
    """`leader` if the leader computed the plan with its loads; `stored` if the leader did not respond, and
    the last loads that it stored for its successor were used."""
    sentence: str
    """Summary of the changes."""

    @classmethod
    def from_stored(cls, identity: str, stored: StoredProposal, changed: list[str]) -> ProposalAnswer:
        """Return a stored proposed plan as a response. Raises DamagedState."""
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
            raise DamagedState(f"cannot read plan {identity}", advice="compute a new plan") from error


def shown_of(decision: Decision, group: GroupName, tasks: int) -> dict[str, Any]:
    """Return the changes and figures of a planning decision, to store and show with a proposed plan."""
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


class ApplyAnswer(StrictModel):
    """A proposed plan that is queued for the leader, which applies it."""

    id: str
    """Id of the plan."""
    sentence: str
    """Description of the next step."""
    operation: OperationAnswer
    """Operation that shows the progress."""
