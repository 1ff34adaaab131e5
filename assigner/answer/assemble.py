"""Converts the result of the planning stages to a plan in the caller's order and units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from assigner.answer.explain import move_causes, reasons
from assigner.answer.placement_answer import PlacementAnswer
from assigner.problem.loads import LEVELS, PartitionLoads, Rates
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import UNITS, PlacementProblem, Ranks, TaskOf
from assigner.stages.outcome import StageOutcome, lowest_maximum_bytes
from mirror.model.load import LoadLevel, TaskCapacity

_Any = TypeVar("_Any", bound=np.generic)


@dataclass(frozen=True, slots=True)
class PlanningDecision:
    """Result of the planning stages, from which the plan is assembled.

    `problem`: the part of `whole` that is planned; `placeable`: ranks of its partitions in `whole`.
    `task_of`: placement after the moves that the move budget allows.
    """

    loads: PartitionLoads
    capacity: TaskCapacity
    whole: PlacementProblem
    problem: PlacementProblem
    placeable: Ranks
    policy: Policy
    outcome: StageOutcome
    task_of: TaskOf


def assemble(decided: PlanningDecision) -> PlacementAnswer:
    """Return the plan with its load sums, moves, bounds and reasons."""
    whole, outcome, loads = decided.whole, decided.outcome, decided.loads
    everywhere = np.full(whole.count, -1, np.int32)
    everywhere[decided.placeable] = decided.task_of
    causes = np.zeros(whole.count, np.int8)
    causes[decided.placeable] = move_causes(decided.problem, decided.policy, outcome, decided.task_of)
    alive = _alive(decided)
    current, task_of = _unranked(whole, whole.home), _unranked(whole, everywhere)
    after = _rates(loads, task_of, len(alive))
    moved = (current >= 0) & (task_of >= 0) & (task_of != current)
    moved_bytes = float(loads.rates[moved, 0].sum())
    highest = float(after[:, 0].max(initial=0.0))
    tasks = int(alive.sum())
    plan = PlacementAnswer(
        demand=loads,
        current=current,
        task_of=task_of,
        alive=alive,
        loads=after,
        loads_before=_rates(loads, current, len(alive)),
        required_tasks=outcome.required,
        task_lower_bound=outcome.task_bound,
        max_load=highest,
        max_load_lower_bound=min(highest, _lowest_maximum(decided, tasks)),
        moved_bytes_per_second=moved_bytes,
        moved_lower_bound=_moved_bound(decided, moved_bytes),
        offending=_positions(whole, whole.offending),
        overloaded=_overloaded(decided, everywhere, len(alive)),
        estimated=_of_level(loads, LoadLevel.TOPIC),
        defaulted=_of_level(loads, LoadLevel.DEFAULT),
        unplaced=_positions(whole, everywhere < 0),
        moves_left=int(((decided.problem.home >= 0) & (decided.task_of != outcome.task_of)).sum()),
        min_tasks_unmet=tasks < whole.limits.min_tasks,
        cut_short=0,
        stage=outcome.stage,
        reasons=(),
        move_causes=_unranked(whole, causes),
    )
    return replace(plan, reasons=tuple(reasons(whole, decided.capacity, decided.policy, outcome, plan)))


def _alive(decided: PlanningDecision) -> npt.NDArray[np.bool_]:
    """Return which tasks the plan has, as a mask. This includes tasks that should be removed, but could not
    be emptied within the move budget."""
    alive = np.zeros(max(len(decided.outcome.alive), decided.whole.homes), dtype=bool)
    alive[: len(decided.outcome.alive)] = decided.outcome.alive
    alive[decided.task_of[decided.task_of >= 0]] = True
    return alive


def _lowest_maximum(decided: PlanningDecision, tasks: int) -> float:
    """Return the lower bound on the load of the fullest task (bytes/s).

    The bound is lower if offending partitions share tasks.
    """
    problem, task_of = decided.problem, decided.task_of
    counts = np.bincount(task_of[task_of >= 0], minlength=1)
    owners = task_of[problem.offending & (task_of >= 0)]
    return lowest_maximum_bytes(problem, tasks, bool((counts[owners] == 1).all())) / UNITS


def _moved_bound(decided: PlanningDecision, moved_bytes: float) -> float:
    if decided.policy.mode is PlanMode.FULL:
        return 0.0
    bound = decided.outcome.moved_bound / UNITS
    complete = bool((decided.task_of == decided.outcome.task_of).all())
    return min(bound, moved_bytes) if complete else bound


def _overloaded(decided: PlanningDecision, task_of: TaskOf, tasks: int) -> tuple[int, ...]:
    over = np.zeros(tasks, dtype=bool)
    placed = task_of >= 0
    for dimension, usable in enumerate(decided.whole.usable.tolist()):
        loads = np.zeros(tasks, np.int64)
        np.add.at(loads, task_of[placed], decided.whole.sizes[placed, dimension])
        over |= loads > usable
    return tuple(np.flatnonzero(over).tolist())


def _unranked(problem: PlacementProblem, by_rank: npt.NDArray[_Any]) -> npt.NDArray[_Any]:
    """Reorder values from the order of ranks to the caller's order of partitions."""
    result = np.empty_like(by_rank)
    result[problem.order] = by_rank
    return result


def _positions(problem: PlacementProblem, mask: npt.NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(np.sort(problem.order[mask]).tolist())


def _rates(loads: PartitionLoads, task_of: TaskOf, tasks: int) -> Rates:
    """Return bytes and messages per second of each task, float64[tasks, 2]."""
    placed = task_of >= 0
    sums = [
        np.bincount(task_of[placed], weights=loads.rates[placed, dimension], minlength=tasks)
        for dimension in (0, 1)
    ]
    return np.stack(sums, axis=1)


def _of_level(loads: PartitionLoads, level: LoadLevel) -> tuple[int, ...]:
    return tuple(np.flatnonzero(loads.levels == LEVELS.index(level)).tolist())
