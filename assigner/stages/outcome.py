"""Result of the planning stages: the task number of each partition, and proven bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.bounds.lower_bounds import load_bound
from assigner.problem.policy import Policy
from assigner.problem.problem import Ints, PlacementProblem, TaskOf, moved_units
from assigner.search.greedy import tail_start
from assigner.stages.eviction import Mask
from assigner.stages.fewer_moves import with_fewer_moves
from assigner.stages.full import Packing, PackingInput, fewest_tasks, goal_at, level, settle
from assigner.stages.hysteresis import TaskCount
from assigner.stages.incremental import keep_and_repair
from assigner.stages.relabel import relabel
from mirror.wording import counted

_NOTHING: Final = Packing(np.empty(0, np.int32), 0, 0, "nothing to place")


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """Placement with proven bounds. Current tasks keep their numbers; new tasks are numbered from `homes`
    upward.

    `task_of`: int32[n] by rank. `alive`: bool[T], tasks of the plan. `required`: tasks required by capacity,
    regardless of limits; `task_bound`: lower bound of `required`. `moved_bound`: in units, 0 if a full plan
    may move anything. `target`: int64[D]. `why`: reason for the number of tasks.
    """

    task_of: TaskOf
    alive: Mask
    required: int
    task_bound: int
    moved_bound: int
    target: Ints
    stage: str
    why: str


def full_outcome(problem: PlacementProblem, policy: Policy) -> StageOutcome:
    """Return a placement of all partitions on the fewest tasks.

    Offending partitions are isolated, loads are levelled, and tasks are mapped to current tasks.
    """
    alone = problem.offending
    normal = np.flatnonzero(~alone)
    inputs = PackingInput(problem.sizes[normal], problem.usable, problem.per_task, policy.effort, policy.seed)
    packed = fewest_tasks(inputs) if len(normal) else _NOTHING
    own = int(alone.sum())
    required = max(packed.tasks + own, 1)
    tasks = allowed_tasks(problem, required)
    if tasks < required or tasks < own + bool(len(normal)):
        task_of, stage = _squeezed(problem, policy, tasks)
        why = f"required: {counted(required, 'task')}, allowed: {tasks}"
    else:
        task_of = np.empty(problem.count, np.int32)
        task_of[alone] = tasks - own + np.arange(own)
        task_of[normal], stage = _levelled(inputs, packed, tasks - own)
        why = f"required: {counted(required, 'task')}"
    named, numbered = relabel(problem.sizes[:, 0], problem.home, task_of, problem.homes)
    alive = np.zeros(max(numbered, problem.homes, tasks), dtype=bool)
    alive[np.unique(named)] = True
    _fill_up(alive, tasks)
    bound = packed.bound + own
    return StageOutcome(named, alive, required, bound, 0, problem.usable, stage, why)


def incremental_outcome(problem: PlacementProblem, policy: Policy) -> StageOutcome:
    """Return a plan that keeps partitions in their tasks where possible."""
    kept, count = keep_and_repair(problem, policy)
    kept = with_fewer_moves(problem, policy, kept)
    needed, used = count.needed, int(kept.alive.sum())
    if not kept.fits and used < allowed_tasks(problem, problem.count):
        full = full_outcome(problem, policy)
        return replace(full, why=f"{full.why}; repairs were not enough, so everything is placed from scratch")
    present = len(np.unique(problem.home[problem.home >= 0]))
    why = _why(problem, count, present, used)
    required = used if used > max(present, needed, problem.limits.min_tasks) and kept.fits else needed
    moved = moved_units(problem.sizes, problem.home, kept.task_of)
    bound = kept.moved_bound if kept.reached else min(kept.moved_bound, moved)
    return StageOutcome(kept.task_of, kept.alive, required, needed, bound, kept.target, kept.stage, why)


def _why(problem: PlacementProblem, count: TaskCount, present: int, used: int) -> str:
    """Return the reason for the number of tasks: load, a limit, or a repair."""
    if used == count.wanted:
        return count.why
    change = ""
    if used != present:
        n, verb = abs(used - present), "added" if used > present else "removed"
        change = f", so {counted(n, 'task is', 'tasks are')} {verb}"
    least, most = problem.limits.min_tasks, problem.limits.max_tasks
    needs = f"current: {counted(present, 'task')}, the load needs {count.needed}"
    if used < count.wanted:
        return f"{needs}, and max_tasks allows {most}{change}"
    if used == least:
        return f"{needs}{change and f', and {least} is the minimum{change}'}"
    return f"{needs}, and no placement of all partitions was found on {used - 1}{change}"


def allowed_tasks(problem: PlacementProblem, required: int) -> int:
    """Return the number of tasks within the minimum, the maximum and the number of partitions; at least 1."""
    wanted = max(required, problem.limits.min_tasks)
    if problem.limits.max_tasks is not None:
        wanted = min(wanted, problem.limits.max_tasks)
    return max(1, min(wanted, problem.count))


def lowest_maximum_bytes(problem: PlacementProblem, tasks: int, isolated: bool) -> int:
    """Return a lower bound on the load of the fullest of `tasks` tasks (in units)."""
    if not isolated:
        return load_bound(problem.sizes[:, 0], tasks)
    alone = problem.offending
    rest = problem.sizes[~alone, 0]
    highest = int(problem.sizes[alone, 0].max(initial=0))
    return max(highest, load_bound(rest, max(1, tasks - int(alone.sum()))) if len(rest) else 0)


def _squeezed(problem: PlacementProblem, policy: Policy, tasks: int) -> tuple[TaskOf, str]:
    """Place all partitions on fewer tasks than they need, with levelled loads.

    Offending partitions are not isolated.
    """
    inputs = PackingInput(problem.sizes, problem.usable, problem.per_task, policy.effort, policy.seed)
    state = level(inputs, tasks, goal_at(inputs, tasks), tail_start(inputs.sizes))
    return settle(inputs, state.task_of, tasks).task_of, "levelled above capacity"


def _levelled(inputs: PackingInput, packed: Packing, tasks: int) -> tuple[TaskOf, str]:
    if not len(inputs.sizes):
        return np.empty(0, np.int32), packed.stage
    if tasks == packed.tasks:
        return settle(inputs, packed.task_of, tasks).task_of, packed.stage
    state = level(inputs, tasks, goal_at(inputs, tasks), tail_start(inputs.sizes))
    return settle(inputs, state.task_of, tasks).task_of, "descent"


def _fill_up(alive: Mask, tasks: int) -> None:
    """Mark empty tasks as used until there are `tasks`, if the partitions with load need fewer."""
    missing = tasks - int(alive.sum())
    if missing > 0:
        alive[np.flatnonzero(~alive)[:missing]] = True
