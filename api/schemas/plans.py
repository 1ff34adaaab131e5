"""Plans, rebalances and events on /v1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mirror.coordination.acting.effect import effect_of
from mirror.coordination.operations.operation import Operation
from mirror.coordination.planning import Decision
from mirror.coordination.stores.problems import reason_of
from mirror.instance.loads.assessments import Assessment
from mirror.model.identifiers import GroupName
from mirror.model.metrics import PlacementEvent
from mirror.model.plan import Move, Plan

LoadsFrom = Literal["leader", "stored"]
"""Origin of the loads of a dry run."""


class TaskAnswer(BaseModel):
    """Task; `partitions` as `topic-number`, sorted."""

    task: str
    datastream: str
    instance: str | None
    partitions: list[str]


class CapacityAnswer(BaseModel):
    """Planned capacity of one task, and the learned capacity even if it is not used."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    origin: Literal["setting", "datastream", "learned", "unlearned"]
    """Origin of the capacity: the settings; the `placement` of the datastream; the copy costs measured on the
    instances; the value of the settings until a capacity is learned."""
    bytes_per_second: int
    """Capacity of one task."""
    messages_per_second: int | None
    """Capacity of one task; null: only bytes count."""
    utilisation_percent: int
    """Share of the capacity that placement fills."""
    why: str
    """Explanation of the capacity."""
    learned_bytes_per_second: int | None
    """Rate that one core was measured to copy; null: nothing learned yet."""
    low: int | None
    """Learned rate minus twice its standard error, in bytes per second."""
    high: int | None
    """Learned rate plus twice its standard error, in bytes per second."""
    learned_messages_per_second: int | None
    """Message rate that corresponds to `learned_bytes_per_second`."""
    observations: int
    """Number of intervals of busy workers from which it was learned."""
    observed_seconds: float
    """Total length of these intervals."""
    bytes_per_batch: float | None
    """Mean size of the observed batches, as fetched."""
    records_per_batch: float | None
    """Mean number of records of the observed batches."""
    passthrough: float | None
    """Share of the observed batches that passed unopened."""


class PlanningAnswer(BaseModel):
    """Result of the last planning of a group of datastreams, even if it changed nothing.

    Rates are in bytes per second. `loads_measured_at_ms`: null if no load was known. `unknown`: number of
    partitions with unknown load; `lower_bounds`: partitions that were behind and may have a higher load;
    `cut_short`: searches that reached their time limit, so that the same input can result in another plan.
    `capacity`: task capacity used for the planning; null: not recorded.
    """

    planned_ms: int
    loads_measured_at_ms: int | None
    tasks: int
    required_tasks: int
    task_lower_bound: int
    max_load: float
    max_load_lower_bound: float
    moved: float
    moved_lower_bound: float
    offending: int
    unplaced: int
    overloaded: int
    estimated: int
    unknown: int
    lower_bounds: int
    moves_left: int
    cut_short: int
    stage: str
    offending_partitions: list[str]
    unplaced_partitions: list[str]
    reasons: list[str]
    capacity: CapacityAnswer | None

    @classmethod
    def from_assessment(cls, assessment: Assessment) -> PlanningAnswer:
        """Return the JSON form."""
        return cls(**asdict(assessment))


class GroupAnswer(PlanningAnswer):
    """Result of the last planning of a group of datastreams; `datastream` is the group's name."""

    datastream: str


class PlanAnswer(BaseModel):
    """Plan in force, and result of the last planning of each group."""

    epoch: int
    created_ms: int
    reason: str
    tasks: list[TaskAnswer]
    groups: list[GroupAnswer] = []

    @classmethod
    def from_plan(
        cls, plan: Plan, assessments: Mapping[GroupName, Assessment], *, with_tasks: bool = True
    ) -> PlanAnswer:
        """Return the JSON form."""
        tasks = [
            TaskAnswer(
                task=placement.task,
                datastream=placement.group,
                instance=placement.instance,
                partitions=[str(partition) for partition in sorted(placement.partitions)],
            )
            for placement in (plan.tasks if with_tasks else ())
        ]
        groups = [GroupAnswer(datastream=name, **asdict(one)) for name, one in sorted(assessments.items())]
        return cls(
            epoch=plan.epoch, created_ms=plan.created_ms, reason=plan.reason, tasks=tasks, groups=groups
        )


class TaskChangeAnswer(BaseModel):
    """Task that a plan adds or removes, and the reason."""

    datastream: str
    task: str
    change: Literal["added", "removed"]
    reason: str

    @classmethod
    def of(cls, decision: Decision) -> list[TaskChangeAnswer]:
        """Return the changes of a decision."""
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
    """Partition that changes its task or instance."""

    datastream: str
    partition: str
    from_task: str | None
    to_task: str | None
    from_instance: str | None
    to_instance: str | None
    reason: str

    @classmethod
    def from_move(cls, move: Move, reason: str) -> PlannedMove:
        """Return the JSON form."""
        return cls(
            datastream=move.group,
            partition=str(move.partition),
            from_task=move.from_task,
            to_task=move.to_task,
            from_instance=move.from_instance,
            to_instance=move.to_instance,
            reason=reason,
        )


class OperationAnswer(BaseModel):
    """Long-running request of a caller. Times are epoch ms."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """Id for `/v1/operations/{operation}`."""
    kind: Literal["rebalance", "move", "apply", "stop", "delete", "other"]
    """Kind of request; `other`: this instance cannot read the request."""
    datastream: str
    """Datastream; for a request that is planned, the group whose tasks are planned."""
    state: Literal["queued", "running", "done", "failed"]
    """`queued`: the leader has not processed it; `running`: tasks are being stopped; `done`: the plan in
    force implements it, or no longer contains the stopped or deleted datastream; `failed`: it was not carried
    out."""
    requested_by: str
    """Requester, empty if not given."""
    created_ms: int | None
    """Time of the request; null: not recorded."""
    finished_ms: int | None
    """Time at which it finished; null: not finished, or not recorded."""
    sentence: str
    """Progress, result, or reason of the failure."""
    plan_epoch: int | None
    """Epoch of the plan that implements the request, once done; null for a stop and a deletion."""

    @classmethod
    def from_operation(cls, operation: Operation) -> OperationAnswer:
        """Return the JSON form."""
        return cls(
            id=operation.identity,
            kind=operation.kind.value,
            datastream=operation.datastream,
            state=operation.state.value,
            requested_by=operation.requested_by,
            created_ms=operation.created_ms,
            finished_ms=operation.finished_ms,
            sentence=operation.sentence,
            plan_epoch=operation.plan_epoch,
        )


class RebalanceBody(BaseModel):
    """Request for a new plan of one datastream. `full`: ignore the current placement; `dry_run`: only report.
    `lease`: lease of the requesting monitor; rejected with 409 if that monitor no longer holds it or must not
    act."""

    model_config = ConfigDict(extra="forbid", strict=True)

    datastream: str
    full: bool = False
    dry_run: bool = False
    requested_by: str = "REST"
    reason: str = "asked for"
    lease: str = ""


class EffectAnswer(BaseModel):
    """Effect of a dry run on the load of tasks. Rates are in bytes per second, null if unknown: of the
    partitions that move, and of the fullest task before and after. `overloaded_after`: number of tasks that
    would still exceed their capacity."""

    partitions: int
    moved: float | None
    fullest_before: float | None
    fullest_after: float | None
    overloaded_after: int


class RebalanceAnswer(BaseModel):
    """Result of a rebalance request.

    `request`: id of the queued request; empty for a dry run, which reports the moves instead. `operation`:
    the request as an operation; null for a dry run. `effect`: effect of a dry run on the load of tasks; null
    otherwise. `reasons`: explanation of the number of tasks and its distance from the proven optimum.
    `loads_known`: true if a dry run is based on measured loads; if false, an empty list of moves does not
    prove that moves would not help. `loads_from`: of a dry run; `leader`, which computed it with its loads;
    `stored`: the leader did not respond, and these are the last loads that it stored for its successor.
    `task_changes`: tasks that a dry run would add or remove.
    """

    request: str
    sentence: str
    loads_known: bool | None = None
    loads_from: LoadsFrom | None = None
    required_tasks: int | None = None
    reasons: list[str] = []
    moves: list[PlannedMove] = []
    task_changes: list[TaskChangeAnswer] = []
    effect: EffectAnswer | None = None
    operation: OperationAnswer | None = None

    @classmethod
    def from_decision(cls, decision: Decision) -> RebalanceAnswer:
        """Return the result of a dry run."""
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


def event_answer(event: PlacementEvent) -> dict[str, object]:
    """Return an event as JSON-ready values."""
    return asdict(event)
