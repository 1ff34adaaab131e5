"""Chooses the set of partitions that each task keeps, if partitions are large relative to a task."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from assigner.problem.policy import Policy
from assigner.problem.problem import PlacementProblem, Ranks, TaskOf
from assigner.search.exact import SolverAnswer
from assigner.search.kept_sets import KeptSetsQuestion, fewest_moved_by_sets, is_affordable, is_on_a_grid


@dataclass(frozen=True, slots=True)
class KeptSetsScope:
    """Tasks among which kept sets may be chosen, and their capacity.

    `places`: numbers of the available tasks, ascending; `most`: maximum number of tasks that may have
    partitions. `room`: capacity of each task, in units.
    """

    places: Ranks
    most: int
    room: int


def are_kept_sets_worth_it(problem: PlacementProblem, policy: Policy, tasks: int) -> bool:
    """Return whether the search for kept sets (partitions that each task keeps) is possible and useful.

    Kept sets need one dimension, no limit on partitions per task, few partitions, and no partition larger
    than a task. If the sizes of partitions have no large common divisor, kept sets are used only for problems
    that are too large for the solver.
    """
    if problem.dimensions > 1 or problem.per_task.is_bounded or problem.offending.any():
        return False
    carrying = problem.sizes[problem.sizes[:, 0] > 0, 0]
    if not policy.exact_cells or not is_affordable(len(carrying), tasks):
        return False
    return len(carrying) * tasks > policy.exact_cells or is_on_a_grid(carrying, int(problem.usable[0]))


def choose_kept_sets(
    problem: PlacementProblem, policy: Policy, scope: KeptSetsScope, incumbent: TaskOf | None
) -> SolverAnswer:
    """Find the placement that moves the fewest bytes and uses at most `most` of the tasks in `scope`.
    Partitions of other tasks stay where they are.

    `incumbent`: a valid placement, or None. `bound` of the result: lower bound on the moves of any placement
    that uses `most` of the tasks.
    """
    local = np.full(problem.homes + scope.most + 1, -1, np.int32)
    local[scope.places] = np.arange(len(scope.places))
    rows = np.flatnonzero((problem.home < 0) | (local[problem.home] >= 0))
    homes = np.where(problem.home[rows] >= 0, local[problem.home[rows]], -1).astype(np.int32)
    question = KeptSetsQuestion(
        sizes=problem.sizes[rows, 0],
        homes=homes,
        tasks=len(scope.places),
        most=scope.most,
        room=scope.room,
        incumbent=None if incumbent is None else local[incumbent[rows]],
        effort=policy.effort,
        seed=policy.seed,
    )
    answer = fewest_moved_by_sets(question)
    if answer.task_of is None:
        return answer
    task_of = problem.home.copy()
    task_of[rows] = scope.places[answer.task_of]
    return replace(answer, task_of=task_of)
