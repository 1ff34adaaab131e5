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


class TaskAnswer(BaseModel):
    """One task; `partitions` as `topic-number`, sorted."""

    task: str
    datastream: str
    instance: str | None
    partitions: list[str]


class CapacityAnswer(BaseModel):
    """What one task is planned to bear, and what was learned of it, also where that is not used."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    origin: Literal["setting", "datastream", "learned", "unlearned"]
    """Where it comes from: the settings; the datastream's own `placement`; what copying cost on the
    instances; the number of the settings for as long as nothing is learned."""
    bytes_per_second: int
    """Of one task."""
    messages_per_second: int | None
    """Of one task; null: only bytes count."""
    utilisation_percent: int
    """Share of it that placement fills."""
    why: str
    """The same in words."""
    learned_bytes_per_second: int | None
    """What one core was seen to copy; null: nothing is learned yet."""
    low: int | None
    """Of the interval around it, in bytes per second."""
    high: int | None
    """Of the interval around it, in bytes per second."""
    learned_messages_per_second: int | None
    """Messages that go with it."""
    observations: int
    """Intervals of busy workers that it was learned from."""
    observed_seconds: float
    """Their length together."""
    bytes_per_batch: float | None
    """Of the batches that it was learned from, as fetched."""
    records_per_batch: float | None
    """Of the batches that it was learned from."""
    passthrough: float | None
    """Share of these batches that passed unopened."""


class PlanningAnswer(BaseModel):
    """What the last planning of a group of datastreams found, which may have changed nothing.

    Rates are in bytes per second. `loads_measured_at_ms`: null where no load was known. `unknown`: partitions
    of which no load was known; `lower_bounds`: partitions that were behind, so that they may carry more;
    `cut_short`: searches that ended by the clock, so that an equal question may get another plan.
    `capacity`: of a task, that it was planned with; null: it was not noted.
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
        """The JSON form."""
        return cls(**asdict(assessment))


class GroupAnswer(PlanningAnswer):
    """What the last planning of a group of datastreams found; `datastream` is the group's name."""

    datastream: str


class PlanAnswer(BaseModel):
    """The plan in force, and what the planning of each group found."""

    epoch: int
    created_ms: int
    reason: str
    tasks: list[TaskAnswer]
    groups: list[GroupAnswer] = []

    @classmethod
    def from_plan(
        cls, plan: Plan, assessments: Mapping[GroupName, Assessment], *, with_tasks: bool = True
    ) -> PlanAnswer:
        """The JSON form."""
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


class PlannedMove(BaseModel):
    """One partition that changes its task or instance."""

    datastream: str
    partition: str
    from_task: str | None
    to_task: str | None
    from_instance: str | None
    to_instance: str | None
    reason: str

    @classmethod
    def from_move(cls, move: Move, reason: str) -> PlannedMove:
        """The JSON form."""
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
    """Long work that somebody asked for. Moments are epoch ms."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    id: str
    """For `/v1/operations/{operation}`."""
    kind: Literal["rebalance", "move", "apply", "stop", "delete", "other"]
    """What is done; `other`: a request that cannot be read here."""
    datastream: str
    """The datastream; of what is planned, the group whose tasks are planned."""
    state: Literal["queued", "running", "done", "failed"]
    """`queued`: the leader has not answered it; `running`: tasks are being given up; `done`: the plan in
    force does it, or nothing of what was stopped or deleted is planned any more; `failed`: it is not done."""
    requested_by: str
    """Who asked, as far as that was said."""
    created_ms: int | None
    """When it was asked for; null: nobody has noted it."""
    finished_ms: int | None
    """When it ended; null: it has not, or nobody has noted it."""
    sentence: str
    """How far it is, what was done, or why it was not."""
    plan_epoch: int | None
    """The plan in force that does what was asked, once it is done; null for a stop and a deletion."""

    @classmethod
    def from_operation(cls, operation: Operation) -> OperationAnswer:
        """The JSON form."""
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
    """Ask for a new plan of one datastream. `full`: forget the placement; `dry_run`: only tell. `lease`: of
    the monitor that asks; one that has it no more, or must not act, is refused with 409."""

    model_config = ConfigDict(extra="forbid", strict=True)

    datastream: str
    full: bool = False
    dry_run: bool = False
    requested_by: str = "REST"
    reason: str = "asked for"
    lease: str = ""


class EffectAnswer(BaseModel):
    """What a dry run would do to the load of tasks. Rates are in bytes per second, null where they are not
    known: of the partitions that move, and of the fullest task before and after. `overloaded_after`: tasks
    that carry more than they may, also then."""

    partitions: int
    moved: float | None
    fullest_before: float | None
    fullest_after: float | None
    overloaded_after: int


class RebalanceAnswer(BaseModel):
    """`request`: identity of the queued request; empty for a dry run, which reports the moves instead.
    `operation`: the request as an operation; null for a dry run.

    `effect`: what a dry run would do to the load of tasks; null where nothing was one.

    `reasons`: why there are this many tasks, and how far that is from the proved best. Of a dry run,
    `loads_known`: whether it rests on any load that was measured; where it does not, that nothing moves
    does not say that moves would not help.
    """

    request: str
    sentence: str
    loads_known: bool | None = None
    required_tasks: int | None = None
    reasons: list[str] = []
    moves: list[PlannedMove] = []
    effect: EffectAnswer | None = None
    operation: OperationAnswer | None = None

    @classmethod
    def from_decision(cls, decision: Decision) -> RebalanceAnswer:
        """What a dry run found."""
        reasons = decision.move_reasons
        required = [group_plan.required_tasks for group_plan in decision.group_plans.values()]
        return cls(
            request="",
            sentence=decision.sentence,
            loads_known=decision.are_loads_known,
            required_tasks=max(required, default=None),
            reasons=[
                *(reason for group_plan in decision.group_plans.values() for reason in group_plan.reasons),
                *(
                    f"{group} is not planned: {reason_of(error)}"
                    for group, error in decision.problems.items()
                ),
            ],
            moves=[
                PlannedMove.from_move(move, reasons[move.group, move.partition]) for move in decision.moves
            ],
            effect=EffectAnswer(**asdict(effect_of(decision))),
        )


def event_answer(event: PlacementEvent) -> dict[str, object]:
    """An event as JSON."""
    return asdict(event)
