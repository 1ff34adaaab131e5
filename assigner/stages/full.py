"""Plans from scratch: the fewest tasks into which all partitions fit, then the lowest load of the fullest
task.

For a given number of tasks, these methods are used: heaviest first with a levelled tail, then descent. In one
dimension, best fit decreasing is another start, and column generation is used if partitions are large
relative to a task. For small problems, the solver proves that the result is optimal.
With two dimensions the fullness of a task is its larger share. All results respect the limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.bounds.lower_bounds import load_bound, task_bound
from assigner.problem.limits import Limits
from assigner.problem.problem import LARGEST_ROOM, Ints, TaskOf
from assigner.search.arrangement import Arrangement
from assigner.search.columns import generate_and_dive, is_affordable
from assigner.search.descent import DescentGoal, descend
from assigner.search.exact import fits, lowest_maximum
from assigner.search.greedy import assign_lpt, best_fit, level_tail, tail_start
from assigner.search.vector_descent import descend_vectors

FINE: Final = (1e-4, 1e-3)
"""Accepted excess over the best possible maximum load, by number of dimensions (ratio)."""

_WORK: Final = (12_000_000, 100_000_000)
_SINGLE_STEPS: Final = 4
_PROOF_CELLS: Final = 1_000
_EXACT_CELLS: Final = 250


@dataclass(frozen=True, slots=True)
class PackingInput:
    """Partitions to pack into tasks. `sizes`: int64[n, D], heaviest first; no size exceeds the task capacity
    int64[D] `room`."""

    sizes: Ints
    room: Ints
    limits: Limits
    effort: float
    seed: int

    @property
    def dimensions(self) -> int:
        """Number of dimensions, 1 or 2."""
        return len(self.room)


@dataclass(frozen=True, slots=True)
class Packing:
    """Assignment of partitions to tasks, and the stage that found it. `bound`: lower bound on the number of
    tasks."""

    task_of: TaskOf
    tasks: int
    bound: int
    stage: str


@dataclass(frozen=True, slots=True)
class PackingAttempt:
    """Result of an attempt to pack partitions. `task_of`: None if they did not fit. `bound`: lower bound on
    tasks, 0 if unknown."""

    task_of: TaskOf | None
    stage: str = ""
    bound: int = 0


def fewest_tasks(inputs: PackingInput) -> Packing:
    """Pack the partitions into the fewest tasks that were found to suffice. Always succeeds, because one task
    per partition suffices."""
    bound = max(task_bound(inputs.sizes, inputs.room, inputs.limits), 1)
    tasks = bound
    tried = 0
    while True:
        found = attempt_at(inputs, tasks)
        if found.task_of is not None:
            return Packing(found.task_of, tasks, bound, found.stage)
        bound = max(bound, found.bound)
        tried += 1
        tasks = max(bound, tasks + (1 if tried <= _SINGLE_STEPS else max(1, tasks // 200)))


def attempt_at(inputs: PackingInput, tasks: int) -> PackingAttempt:
    """Try to fit all partitions into exactly `tasks` tasks.

    The methods are tried in order of their cost, until one succeeds.
    """
    goal = goal_at(inputs, tasks)
    state = level(inputs, tasks, goal, tail_start(inputs.sizes))
    if not fits_all(state, inputs) and (goal == inputs.room).all():
        state = level(inputs, tasks, goal, int(np.count_nonzero(inputs.sizes.any(axis=1))))
    if fits_all(state, inputs):
        return PackingAttempt(state.task_of, "descent")
    found = _pack_sizes(inputs, tasks) if inputs.dimensions == 1 else PackingAttempt(None)
    if found.task_of is not None or found.bound > tasks or len(inputs.sizes) * tasks > _PROOF_CELLS:
        return found
    answer = fits(inputs.sizes, tasks, inputs.room, inputs.limits, inputs.effort, inputs.seed)
    if answer.task_of is not None:
        return PackingAttempt(answer.task_of, "solver", found.bound)
    return PackingAttempt(None, bound=tasks + 1 if answer.proved else found.bound)


def _pack_sizes(inputs: PackingInput, tasks: int) -> PackingAttempt:
    """Try best fit with exchanges, then column generation, in one dimension only."""
    state = _fitted(inputs, tasks)
    if lower(state, inputs.room, inputs):
        return PackingAttempt(state.task_of, "best fit")
    if not is_affordable(len(inputs.sizes), tasks):
        return PackingAttempt(None)
    sizes, room = inputs.sizes[:, 0], int(inputs.room[0])
    found = generate_and_dive(sizes, room, inputs.limits, tasks, inputs.effort)
    return PackingAttempt(found.task_of, "column generation", found.bound)


def goal_at(inputs: PackingInput, tasks: int) -> Ints:
    """Return the load to which full tasks should be reduced when tasks are levelled.

    The load is slightly above the best possible value, and above the room only if necessary.
    """
    lowest = lowest_loads(inputs.sizes, tasks)
    share = float((lowest / inputs.room).max()) * (1 + FINE[inputs.dimensions - 1])
    goal = np.floor(np.minimum(inputs.room * share, LARGEST_ROOM)).astype(np.int64)
    fitting = np.where((lowest <= inputs.room).all(), np.minimum(goal, inputs.room), goal)
    return np.asarray(np.maximum(fitting, lowest).clip(1))


def lowest_loads(sizes: Ints, tasks: int) -> Ints:
    """Return a lower bound on the load of the fullest task in each dimension: int64[D]."""
    return np.array([load_bound(sizes[:, d], tasks) for d in range(sizes.shape[1])], np.int64)


def level(inputs: PackingInput, tasks: int, goal: Ints, head: int) -> Arrangement:
    """Place all partitions, then reduce the fullest tasks to the goal by exchanges.

    Each of the first `head` ranks gets the lightest task, and the tail is distributed by count.
    """
    task_of = np.full(len(inputs.sizes), -1, np.int32)
    loads, counts = np.zeros((tasks, inputs.dimensions), np.int64), np.zeros(tasks, np.int64)
    task_of[:head] = assign_lpt(inputs.sizes, np.arange(head), loads, counts, inputs.room, inputs.limits)
    full = np.asarray((loads >= goal).any(axis=1))
    task_of[head:] = level_tail(counts, len(task_of) - head, full, inputs.limits)
    state = Arrangement(inputs.sizes, task_of, tasks)
    lower(state, goal, inputs)
    return state


def settle(inputs: PackingInput, task_of: TaskOf, tasks: int) -> Arrangement:
    """Lower the load of the fullest task; in small cases, to the proven minimum."""
    goal = goal_at(inputs, tasks)
    state = Arrangement(inputs.sizes, task_of, tasks)
    if lower(state, goal, inputs):
        return state
    if inputs.dimensions == 1 and len(task_of) * tasks <= _EXACT_CELLS:
        sizes = inputs.sizes[:, 0]
        answer = lowest_maximum(sizes, state.task_of, tasks, inputs.limits, inputs.effort, inputs.seed)
        if answer.task_of is not None:
            return Arrangement(inputs.sizes, answer.task_of, tasks)
    return state


def lower(state: Arrangement, goal: Ints, inputs: PackingInput, *, frugal: bool = False) -> bool:
    """Reduce the fullest tasks by exchanges, in one or two dimensions; return True if all reach the goal.

    `frugal`: as in `DescentGoal`.
    """
    work = int(_WORK[inputs.dimensions - 1] * inputs.effort)
    if inputs.dimensions == 1:
        return descend(state, DescentGoal(int(goal[0]), inputs.limits, frugal), work)
    return descend_vectors(state, goal, work, inputs.limits)


def fits_all(state: Arrangement, inputs: PackingInput) -> bool:
    """Return whether every task is within its room."""
    return bool((state.loads <= inputs.room).all())


def _fitted(inputs: PackingInput, tasks: int) -> Arrangement:
    """Place partitions by best fit. Partitions that do not fit go to the lightest tasks."""
    task_of = best_fit(inputs.sizes[:, 0], int(inputs.room[0]), tasks, inputs.limits)
    state = Arrangement(inputs.sizes, task_of, tasks)
    left = np.flatnonzero(task_of < 0)
    task_of[left] = assign_lpt(inputs.sizes, left, state.loads, state.counts, inputs.room, inputs.limits)
    return Arrangement(inputs.sizes, task_of, tasks)
