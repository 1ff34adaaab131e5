"""Plans, rebalances and events on /v1."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import BaseModel, ConfigDict

from mirror.coordination.planning import Decision
from mirror.coordination.problems import reason_of
from mirror.model.metrics import PlacementEvent
from mirror.model.plan import Move, Plan


class TaskAnswer(BaseModel):
    """One task; `partitions` as `topic-number`, sorted."""

    task: str
    datastream: str
    instance: str | None
    partitions: list[str]


class PlanAnswer(BaseModel):
    """The plan in force."""

    epoch: int
    created_ms: int
    reason: str
    tasks: list[TaskAnswer]

    @classmethod
    def from_plan(cls, plan: Plan) -> PlanAnswer:
        """The JSON form."""
        tasks = [
            TaskAnswer(
                task=placement.task,
                datastream=placement.group,
                instance=placement.instance,
                partitions=[str(partition) for partition in sorted(placement.partitions)],
            )
            for placement in plan.tasks
        ]
        return cls(epoch=plan.epoch, created_ms=plan.created_ms, reason=plan.reason, tasks=tasks)


class MoveAnswer(BaseModel):
    """One partition that changes its task or instance."""

    datastream: str
    partition: str
    from_task: str | None
    to_task: str | None
    from_instance: str | None
    to_instance: str | None
    reason: str

    @classmethod
    def from_move(cls, move: Move, reason: str) -> MoveAnswer:
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


class RebalanceBody(BaseModel):
    """Ask for a new plan of one datastream. `full`: forget the placement; `dry_run`: only tell."""

    model_config = ConfigDict(extra="forbid")

    datastream: str
    full: bool = False
    dry_run: bool = False
    requested_by: str = "REST"
    reason: str = "asked for"


class RebalanceAnswer(BaseModel):
    """`request`: identity of the queued request; empty for a dry run, which tells the moves instead.

    `reasons`: why so many tasks, and how far from the proved best.
    """

    request: str
    sentence: str
    required_tasks: int | None = None
    reasons: list[str] = []
    moves: list[MoveAnswer] = []

    @classmethod
    def from_decision(cls, decision: Decision) -> RebalanceAnswer:
        """What a dry run found."""
        reasons = {
            partition: reason
            for group_plan in decision.group_plans.values()
            for partition, reason in (group_plan.move_reasons or {}).items()
        }
        required = [group_plan.required_tasks for group_plan in decision.group_plans.values()]
        return cls(
            request="",
            sentence=decision.sentence,
            required_tasks=max(required, default=None),
            reasons=[
                *(reason for group_plan in decision.group_plans.values() for reason in group_plan.reasons),
                *(
                    f"{group} is not planned: {reason_of(error)}"
                    for group, error in decision.problems.items()
                ),
            ],
            moves=[MoveAnswer.from_move(move, reasons.get(move.partition, "")) for move in decision.moves],
        )


def event_answer(event: PlacementEvent) -> dict[str, object]:
    """An event as JSON."""
    return asdict(event)
