"""Plans incrementally: partitions stay, except for the lightest sets that must leave their tasks.

Steps: choose the tasks (removed tasks are drained), evict partitions, place partitions without a task in
descending order of load on the lightest task with room, and return partitions whose old task still has room.
If the partitions do not fit, exchanges are tried. If the problem is small and the bound is not reached, the
solver is tried too. If nothing fits, a task is added.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.bounds.lower_bounds import cheapest_sets, newcomers_bound
from assigner.problem.policy import Policy
from assigner.problem.problem import LARGEST_ROOM, Ints, PlacementProblem, Ranks, TaskOf, moved_units
from assigner.stages.eviction import Eviction, Mask, evict
from assigner.stages.full import PackingInput, lowest_loads
from assigner.stages.hysteresis import TaskCount, carried, lasting_overloads, task_count
from assigner.stages.improvement import improve
from assigner.stages.kept_sets import KeptSetsScope, are_kept_sets_worth_it, choose_kept_sets
from assigner.stages.placement import place_homeless

_SINGLE_TRIES: Final = 4
_TRIES: Final = 10
_OTHERS: Final = 2
_FEW_CELLS: Final = 500
_NEAR: Final = 1.01
"""Ratio to the bound below which results of kept sets are not passed to the solver.

Applies beyond `_FEW_CELLS`.
"""
_CELLS_TO_TRY: Final = 4
"""Factor of `exact_cells` up to which other sets of tasks to remove are tried.

The number of cells is the number of partitions times the number of tasks.
"""


@dataclass(frozen=True, slots=True)
class StickyPlacement:
    """An incremental placement. Task numbers below `homes` are current tasks; higher numbers are new tasks.

    `alive`: bool[T], tasks of the plan. `moved_bound`: lower bound of the bytes (units) moved by any plan
    with this number of tasks. `target`: int64[D], load to which tasks should be reduced. `reached`: whether
    all tasks are at or below the target. `fits`: whether no participating task is above usable capacity.
    `least`: int64[T], lower bound of the bytes (units) that each task gives away while it stays.
    """

    task_of: TaskOf
    alive: Mask
    moved_bound: int
    target: Ints
    reached: bool
    fits: bool
    stage: str
    least: Ints


def keep_and_repair(problem: PlacementProblem, policy: Policy) -> tuple[StickyPlacement, TaskCount]:
    """Return an incremental placement, and the decision about its number of tasks.

    Levelling with too little gain is reverted.
    """
    kept, count = _repaired(problem, policy)
    if policy.rebalance and _has_gained_too_little(problem, policy, kept):
        return _repaired(problem, replace(policy, least_gain=1.0))
    return kept, count


def _has_gained_too_little(problem: PlacementProblem, policy: Policy, kept: StickyPlacement) -> bool:
    if len(kept.alive) > problem.homes or (kept.target == problem.usable).all():
        return False
    before = carried(problem.sizes, problem.home, problem.homes)[kept.alive]
    after = carried(problem.sizes, kept.task_of, problem.homes)[kept.alive]
    fullest, level = (float((loads / problem.usable).max(initial=0.0)) for loads in (before, after))
    return fullest <= 1 and fullest - level < policy.least_gain


def _repaired(problem: PlacementProblem, policy: Policy) -> tuple[StickyPlacement, TaskCount]:
    count = task_count(problem, policy)
    present = np.unique(problem.home[problem.home >= 0]).astype(np.int64)
    lowest, highest = _limits(problem)
    wanted = min(max(count.wanted, lowest), highest)
    best: StickyPlacement | None = None
    careful = policy
    for attempt in range(_TRIES):
        kept = _best_at(problem, policy, careful, present, wanted)
        careful = replace(policy, exact_cells=0)
        if best is None or kept.fits or _worst(problem, kept) < _worst(problem, best):
            best = kept
        if kept.fits or wanted >= highest:
            break
        if wanted < len(present):
            wanted = min(len(present), wanted + max(1, (len(present) - wanted) // 2))
        else:
            step = 1 if attempt < _SINGLE_TRIES else max(1, wanted // 50)
            wanted = min(highest, max(wanted + step, min(count.needed, highest)))
    assert best is not None
    return best, count


def _best_at(
    problem: PlacementProblem, policy: Policy, careful: Policy, present: Ranks, wanted: int
) -> StickyPlacement:
    """Return the best incremental placement found that has exactly `wanted` tasks.

    Kept sets are used if partitions are large relative to a task, and the solver if `careful` allows it. If
    kept sets were applied to more than a few cells, the solver runs only if they are far from the bound.
    """
    is_small = int(problem.sizes.any(axis=1).sum()) * wanted <= _FEW_CELLS
    applies = are_kept_sets_worth_it(problem, policy, wanted)
    by_sets = _by_kept_sets(problem, policy, present, wanted) if applies else None
    if by_sets is None:
        how = replace(careful, exact_cells=0) if applies and not is_small else careful
        return _with_others_given_up(problem, how, present, _attempt(problem, how, present, wanted))
    moved = _moved(problem, by_sets)
    is_near = moved <= by_sets.moved_bound * (1 if is_small else _NEAR)
    if is_near or not careful.exact_cells:
        return by_sets
    other = _with_others_given_up(problem, careful, present, _attempt(problem, careful, present, wanted))
    bound = max(by_sets.moved_bound, other.moved_bound)
    is_better = other.reached and _moved(problem, other) < moved
    return replace(other if is_better else by_sets, moved_bound=bound)


def _by_kept_sets(
    problem: PlacementProblem, policy: Policy, present: Ranks, wanted: int
) -> StickyPlacement | None:
    """Compare a placement with one from choosing kept sets, and return the better of the two.

    The choice also determines which tasks are removed. None: no fitting placement was found.
    """
    quick = _attempt(problem, replace(policy, exact_cells=0), present, wanted)
    given_up = present[~quick.alive[present]]
    if quick.reached and not len(given_up) and _moved(problem, quick) <= quick.moved_bound:
        return quick
    whole = carried(problem.sizes, problem.home, len(quick.alive))
    relieved = _relieved(problem, policy, whole[: problem.homes], quick.alive, quick.target)
    tolerated = quick.alive & (whole > quick.target).any(axis=1) & ~relieved
    open_to = (quick.alive | np.isin(np.arange(len(quick.alive)), present)) & ~tolerated
    scope = KeptSetsScope(np.flatnonzero(open_to), wanted - int(tolerated.sum()), int(quick.target[0]))
    loads = carried(problem.sizes, quick.task_of, len(quick.alive))[:, 0]
    kept_away = (problem.home >= 0) & tolerated[problem.home]
    fitting = bool((loads[open_to] <= scope.room).all()) and bool((quick.task_of >= 0).all())
    fitting &= bool((tolerated[quick.task_of] == kept_away).all())
    answer = choose_kept_sets(problem, policy, scope, quick.task_of if fitting else None)
    bound = answer.bound if len(given_up) else max(answer.bound, quick.moved_bound)
    if answer.task_of is None:
        return replace(quick, moved_bound=bound) if fitting and answer.bound else None
    used = np.zeros(len(quick.alive), dtype=bool)
    used[answer.task_of] = True
    order = np.lexsort((np.arange(len(used)), ~np.isin(np.arange(len(used)), present), ~used))
    alive = np.zeros(len(used), dtype=bool)
    alive[order[:wanted]] = True
    return replace(
        quick,
        task_of=answer.task_of,
        alive=alive,
        moved_bound=bound,
        reached=True,
        fits=True,
        stage="kept sets",
    )


def _limits(problem: PlacementProblem) -> tuple[int, int]:
    partitions = max(problem.count, 1)
    highest = min(problem.limits.max_tasks or partitions, partitions)
    return min(problem.limits.min_tasks, highest), highest


def _worst(problem: PlacementProblem, kept: StickyPlacement) -> float:
    loads = carried(problem.sizes, kept.task_of, len(kept.alive))
    return float((loads / problem.usable).max(initial=0.0))


def _with_others_given_up(
    problem: PlacementProblem, policy: Policy, present: Ranks, kept: StickyPlacement
) -> StickyPlacement:
    """Try other combinations of tasks to remove, cheapest first, and return the best placement.

    The search ends when the bound of a set reaches the moves of the best placement so far.
    """
    given_up = present[~kept.alive[present]]
    if not len(given_up):
        return kept
    whole = carried(problem.sizes, problem.home, len(kept.alive))[:, 0]
    extra = np.maximum(whole - kept.least, 0)[present]
    is_small = problem.count * len(present) <= policy.exact_cells * _CELLS_TO_TRY
    tries = _OTHERS if is_small and problem.dimensions == 1 and not problem.offending.any() else 0
    best, bound = kept, kept.moved_bound
    for chosen in cheapest_sets(extra, len(given_up), tries + 2):
        drained = present[list(chosen)]
        if set(drained.tolist()) == set(given_up.tolist()):
            continue
        lowest = int(kept.least.sum() + extra[list(chosen)].sum())
        if not tries or lowest >= _moved(problem, best):
            bound = min(bound, lowest)
            break
        tries -= 1
        other = _attempt(problem, policy, present, int(kept.alive.sum()), drained)
        bound = min(bound, max(lowest, other.moved_bound))
        if (other.fits, other.reached, -_moved(problem, other)) > (
            best.fits,
            best.reached,
            -_moved(problem, best),
        ):
            best = other
    return replace(best, moved_bound=bound)


def _moved(problem: PlacementProblem, kept: StickyPlacement) -> int:
    return moved_units(problem.sizes, problem.home, kept.task_of)


def _attempt(
    problem: PlacementProblem, policy: Policy, present: Ranks, wanted: int, drained: Ranks | None = None
) -> StickyPlacement:
    """Try to place the partitions on exactly `wanted` tasks. `drained`: tasks to remove; None means the
    lightest."""
    loads = carried(problem.sizes, problem.home, problem.homes)
    alive = np.zeros(problem.homes + max(0, wanted - len(present)), dtype=bool)
    alive[present] = True
    alive[problem.homes :] = True
    alive[_to_drain(problem, present, loads, len(present) - wanted) if drained is None else drained] = False
    isolated = problem.offending if _can_isolate(problem, wanted) else np.zeros(problem.count, dtype=bool)
    target = _target(problem, policy, isolated, alive)
    relieved = _relieved(problem, policy, loads, alive, target)
    home = np.where((problem.home >= 0) & alive[problem.home], problem.home, -1).astype(np.int32)
    leaving = evict(problem.sizes, home, isolated, relieved, target, problem.per_task)
    above = (carried(problem.sizes, leaving.kept, len(alive)) > target).any(axis=1)
    tolerated = np.asarray(alive & above & ~relieved)
    return _place(problem, policy, RepairScope(alive, tolerated, isolated, target), leaving, home)


@dataclass(frozen=True, slots=True)
class RepairScope:
    """Tasks and partitions that one attempt may change. `tolerated`: overloaded tasks that need no relief
    yet. `isolated`: partitions that need a dedicated task."""

    alive: Mask
    tolerated: Mask
    isolated: Mask
    target: Ints


def _to_drain(problem: PlacementProblem, present: Ranks, loads: Ints, surplus: int) -> Ranks:
    """Return the tasks to remove: the lightest ones, but tasks with an oversized partition last."""
    if surplus <= 0:
        return present[:0]
    offenders = problem.home[problem.offending & (problem.home >= 0)]
    shares = (loads[present] / problem.usable).max(axis=1) + np.isin(present, offenders) * 1e9
    return present[np.lexsort((present, shares))[:surplus]]


def _can_isolate(problem: PlacementProblem, tasks: int) -> bool:
    """Return whether each oversized partition can have a task, and the rest fit into the other tasks by
    count."""
    offending = int(problem.offending.sum())
    rest = problem.count - offending
    return offending <= tasks and rest <= (tasks - offending) * problem.per_task.most(rest)


def _target(problem: PlacementProblem, policy: Policy, isolated: Mask, alive: Mask) -> Ints:
    """Return the load to which tasks should be reduced: int64[D].

    The target is the usable capacity. The load is lower if a rebalance levels the tasks, and higher if no
    further task is allowed.
    """
    rest, wanted = problem.sizes[~isolated], int(alive.sum())
    tasks = max(1, wanted - int(isolated.sum()))
    lowest = lowest_loads(rest, tasks) if len(rest) else np.zeros_like(problem.usable)
    fitting = bool((lowest <= problem.usable).all())
    levels = policy.rebalance and _is_gain_worth_moves(problem, policy, alive, lowest, isolated)
    if (fitting and not levels) or (not fitting and wanted < _limits(problem)[1]):
        return problem.usable
    share = float((lowest / problem.usable).max()) * (1 + policy.tolerance)
    goal = np.ceil(np.minimum(problem.usable * share, LARGEST_ROOM)).astype(np.int64)
    return np.asarray(np.maximum(np.minimum(goal, problem.usable) if fitting else goal, lowest).clip(1))


def _is_gain_worth_moves(
    problem: PlacementProblem, policy: Policy, alive: Mask, lowest: Ints, isolated: Mask
) -> bool:
    """Return whether a rebalance lowers the load of the fullest task by at least `least_gain`.

    Always True if a task is added, because the new task must get partitions. Tasks above usable capacity are
    always relieved.
    """
    if len(alive) > problem.homes or not policy.least_gain:
        return True
    homes = np.where(isolated, -1, problem.home).astype(np.int32)
    shares = (carried(problem.sizes, homes, problem.homes) / problem.usable)[alive]
    fullest, level = float(shares.max(initial=0.0)), float((lowest / problem.usable).max())
    return fullest > 1 or fullest - level * (1 + policy.tolerance) >= policy.least_gain


def _relieved(problem: PlacementProblem, policy: Policy, loads: Ints, alive: Mask, target: Ints) -> Mask:
    """Return the tasks that must give away load, as a mask.

    A rebalance relieves all tasks above the target; other plans relieve tasks with a lasting overload. If a
    task is added, the band does not apply, because the new task should relieve current tasks.
    """
    relieved = np.zeros(len(alive), dtype=bool)
    above = (loads > target).any(axis=1)
    if policy.rebalance:
        relieved[: problem.homes] = above
    elif len(alive) > problem.homes:
        lasting = lasting_overloads(problem, replace(policy, overload_band=0.0))
        relieved[: problem.homes] = lasting if lasting.any() else above
    else:
        relieved[: problem.homes] = lasting_overloads(problem, policy)
    return relieved & alive


def _place(
    problem: PlacementProblem, policy: Policy, scope: RepairScope, leaving: Eviction, home: TaskOf
) -> StickyPlacement:
    task_of = leaving.kept.copy()
    free_for_all = _place_isolated(problem, scope, task_of)
    open_tasks = _open_tasks(problem, scope, task_of, free_for_all)
    local = np.full(len(scope.alive), -1, np.int32)
    local[open_tasks] = np.arange(len(open_tasks))
    rows = np.flatnonzero((task_of < 0) | (local[task_of] >= 0))
    inputs = PackingInput(problem.sizes[rows], scope.target, problem.per_task, policy.effort, policy.seed)
    placed = np.where(task_of[rows] >= 0, local[task_of[rows]], -1).astype(np.int32)
    homes = np.where(home[rows] >= 0, local[home[rows]], -1).astype(np.int32)
    repaired = place_homeless(inputs, placed, homes, len(open_tasks))
    whole = carried(problem.sizes, problem.home, len(scope.alive))[:, 0]
    least = int(leaving.least[open_tasks].sum())
    if problem.dimensions == 1:
        newcomers = problem.sizes[rows[problem.home[rows] < 0], 0]
        least += newcomers_bound((whole - leaving.least)[open_tasks], newcomers, int(scope.target[0]))
    result = improve(inputs, policy, repaired, homes, least)
    state = result.state
    task_of[rows] = np.where(state.task_of >= 0, open_tasks[state.task_of], -1)
    placed_all = bool((task_of >= 0).all())
    reached = placed_all and bool((state.loads <= scope.target).all())
    limit = np.maximum(scope.target, problem.usable)
    fits = placed_all and bool((state.loads <= limit).all())
    bound = int(leaving.least.sum()) + int(whole[~scope.alive].sum())
    bound += max(0, result.least - int(leaving.least[open_tasks].sum()))
    return StickyPlacement(
        task_of, scope.alive, bound, scope.target, reached, fits, result.stage, leaving.least
    )


def _open_tasks(problem: PlacementProblem, scope: RepairScope, task_of: TaskOf, free: Mask) -> Ranks:
    """Return the tasks that may receive partitions in this attempt.

    Tasks with a tolerated overload are included only if there is no room without them.
    """
    chosen = np.flatnonzero(free & ~scope.tolerated)
    inside = np.zeros(len(free), dtype=bool)
    inside[chosen] = True
    concerned = int(((task_of < 0) | inside[task_of]).sum())
    if concerned <= len(chosen) * problem.per_task.most(concerned):
        return chosen
    return np.flatnonzero(free)


def _place_isolated(problem: PlacementProblem, scope: RepairScope, task_of: TaskOf) -> Mask:
    """Give each isolated partition without a task an emptied task; return the mask of other open tasks."""
    held = np.bincount(task_of[task_of >= 0], minlength=len(scope.alive))
    owners = task_of[scope.isolated & (task_of >= 0)]
    free = scope.alive.copy()
    free[owners] = False
    loads = carried(problem.sizes, task_of, len(free))
    for rank in np.flatnonzero(scope.isolated & (task_of < 0)).tolist():
        candidates = np.flatnonzero(free)
        share = (loads[candidates] / problem.usable).max(axis=1) + (held[candidates] > 0)
        chosen = int(candidates[np.lexsort((candidates, share))[0]])
        task_of[np.flatnonzero(task_of == chosen)] = -1
        task_of[rank] = chosen
        free[chosen] = False
    return free
