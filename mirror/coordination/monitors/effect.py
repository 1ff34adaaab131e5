"""Effect of a plan on task loads, and number of moved partitions, for dry runs. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from mirror.coordination.plan_decision import Decision
from mirror.model.identifiers import TaskName


@dataclass(frozen=True, slots=True)
class PlacementEffect:
    """Effect of a plan on task loads. Loads are in bytes per second, None if unknown.

    `fullest_before`, `fullest_after`: highest load of any task before and after the plan. `overloaded_after`:
    number of tasks above their limit after the plan.
    """

    partitions: int
    moved: float | None = None
    fullest_before: float | None = None
    fullest_after: float | None = None
    overloaded_after: int = 0


def effect_of(decision: Decision) -> PlacementEffect:
    """Return the effect of a decision on the task loads of the planned groups. The load of a task before the
    plan is computed from its new load and the loads of the moved partitions."""
    moves = decision.moves
    loads = {
        (group, partition): load.bytes_per_second
        for group, report in decision.loads.items()
        for partition, load in report.loads.items()
    }
    overloaded = sum(len(group_plan.overloaded) for group_plan in decision.group_plans.values())
    carried = [loads.get((move.group, move.partition)) for move in moves]
    known = [load for load in carried if load is not None]
    if not decision.are_loads_known or len(known) < len(moves) or not decision.group_plans:
        return PlacementEffect(len(moves), overloaded_after=overloaded)
    after: dict[TaskName, float] = {}
    for plan in decision.group_plans.values():
        after |= plan.loads_bytes_per_second
    change: defaultdict[TaskName, float] = defaultdict(float)
    for move, load in zip(moves, known, strict=True):
        if move.from_task != move.to_task:
            for task, sign in ((move.from_task, 1.0), (move.to_task, -1.0)):
                if task is not None:
                    change[task] += sign * load
    before = [after.get(task, 0.0) + change[task] for task in {*after, *change}]
    return PlacementEffect(
        len(moves), sum(known), max(before, default=None), max(after.values(), default=None), overloaded
    )
