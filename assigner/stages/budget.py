"""Selects the moves of a plan that the move budget allows, so that each partial plan is an improvement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints, Ranks, TaskOf
from assigner.search.arrangement import Arrangement

_PASSES: Final = 8


@dataclass(frozen=True, slots=True)
class MoveBudget:
    """Limit on the load that a plan may move. `bytes_`: units that may move. `target`: int64[D], highest load
    of a task that receives a partition."""

    bytes_: int
    target: Ints
    limits: Limits


def within_budget(sizes: Ints, home: TaskOf, goal: TaskOf, tasks: int, budget: MoveBudget) -> TaskOf:
    """Apply as many moves from `home` to `goal` as the move budget allows, and return the placement.

    Moves off the fullest tasks come first. After each move, no task is fuller than both the target and its
    former load, so a partial plan is never worse than the current placement. New partitions (home -1) have no
    cost and are placed first.
    """
    state = Arrangement(sizes, home, tasks)
    for rank in np.flatnonzero((home < 0) & (goal >= 0)).tolist():
        state.put(rank, _for_newcomer(state, rank, int(goal[rank]), goal, budget))
    waiting = np.flatnonzero((home >= 0) & (goal >= 0) & (home != goal))
    left = budget.bytes_
    for _ in range(_PASSES):
        moved: list[int] = []
        for rank in _by_need(state, waiting, budget).tolist():
            size, task = sizes[rank], int(goal[rank])
            if int(size[0]) <= left and _has_room(state, task, size, budget):
                state.transfer(int(state.task_of[rank]), task, np.array([rank]))
                left -= int(size[0])
                moved.append(rank)
        waiting = np.setdiff1d(waiting, np.array(moved, np.int64))
        moved.extend(_place_newcomers(state, home, goal, budget))
        if not moved:
            break
    return state.task_of


def _place_newcomers(state: Arrangement, home: TaskOf, goal: TaskOf, budget: MoveBudget) -> list[int]:
    """Move each new partition to its planned task if that task has room. Return the moved partitions."""
    placed = []
    for rank in np.flatnonzero((home < 0) & (goal >= 0) & (state.task_of != goal)).tolist():
        if _has_room(state, int(goal[rank]), state.sizes[rank], budget):
            state.transfer(int(state.task_of[rank]), int(goal[rank]), np.array([rank]))
            placed.append(rank)
    return placed


def _by_need(state: Arrangement, waiting: Ranks, budget: MoveBudget) -> Ranks:
    """Sort the partitions to move by the load of their task, fullest first, then by weight, heaviest
    first."""
    shares = (state.loads / budget.target).max(axis=1)
    return waiting[np.lexsort((waiting, -shares[state.task_of[waiting]]))]


def _has_room(state: Arrangement, task: int, size: Ints, budget: MoveBudget) -> bool:
    fits = bool((state.loads[task] + size <= budget.target).all()) or not state.counts[task]
    return fits and budget.limits.admits_one(int(state.counts[task]))


def _for_newcomer(state: Arrangement, rank: int, wanted: int, goal: TaskOf, budget: MoveBudget) -> int:
    """Return the planned task of a new partition if it has room, otherwise the lightest task with room."""
    if _has_room(state, wanted, state.sizes[rank], budget):
        return wanted
    tasks = np.unique(goal[goal >= 0])
    admitting = budget.limits.admits(state.counts[tasks])
    if admitting.any():
        tasks = tasks[admitting]
    shares = (state.loads[tasks] / budget.target).max(axis=1)
    return int(tasks[np.lexsort((tasks, state.counts[tasks], shares))[0]])
