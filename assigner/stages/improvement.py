"""Improves a placement with the solver, unless it is proven to move the fewest bytes.

If few partitions carry most of the load, the solver places these partitions exactly and treats small
partitions as divisible load. Afterwards, the small partitions are repacked: the lightest subset leaves each
task that exceeds its room. If the small partitions need more room than the solver assumed, their feasible
sums are added to the model, and the model is solved again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.bounds.covers import NEGLIGIBLE_UNITS, Cover, cheapest_cover, smallest_sums
from assigner.problem.policy import Policy
from assigner.problem.problem import UNITS, Ints, Ranks, TaskOf, moved_units
from assigner.search.arrangement import Arrangement
from assigner.search.exact import fewest_moved, fewest_moved_of_heavy
from assigner.stages.full import PackingInput
from assigner.stages.placement import RepairedPlacement, place_homeless

_NEAR: Final = 1.001
_HEAVY_SHARE: Final = 10
"""Divisor: a partition is heavy if its size is more than 1/10 of a task's room."""
_FEW_CELLS: Final = 4
"""Divisor of `exact_cells`. Up to this number of cells, the solver runs if the result is above the bound.

With more cells, the solver runs if the result is above `_NEAR` times the bound.
"""
_NEXT_TO_NOTHING: Final = UNITS - 1
"""Difference that is not worth another run of the solver: less than one byte per second (in units)."""
_SUMS: Final = 4_000
_LARGEST_SUM: Final = 2**50

Ranges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _SolverBudget:
    """Limits on placing heavy partitions with the solver: number of runs, and deterministic seconds for each
    run and in total.

    A run usually needs about one second. If a run needs much more, another seed is faster.
    """

    rounds: int
    each: float
    in_all: float


_FIRST_BUDGET: Final = _SolverBudget(2, 1.2, 2.0)
_FOR_ALL: Final = 1.5
_LAST_BUDGET: Final = _SolverBudget(5, 1.6, 5.0)


def improve(
    inputs: PackingInput, policy: Policy, repaired: RepairedPlacement, homes: TaskOf, least: int
) -> RepairedPlacement:
    """Improve a placement with the solver if it does not reach the lower bound. The solver places the heavy
    partitions and, in a small problem, all partitions."""
    # A partition without load matters to the solver only if partitions are counted.
    concerned = np.flatnonzero(
        inputs.sizes.any(axis=1) | inputs.limits.is_bounded | (repaired.state.task_of < 0)
    )
    tasks = repaired.state.tasks
    best = RepairedPlacement(repaired.state, repaired.stage, least)
    heavy = int((inputs.sizes[:, 0] * _HEAVY_SHARE > inputs.room[0]).sum())
    cells = heavy * tasks
    by_heavy = _has_small_partitions(inputs, heavy) and cells <= policy.exact_cells
    small = _SmallPartitions(inputs.sizes[:, 0], homes, heavy)
    if len(concerned) * tasks <= policy.exact_cells:
        if by_heavy and not _is_within(inputs, best, homes, 1.0):
            best = _by_the_heavy(inputs, best, homes, small, _FIRST_BUDGET)
        if not _is_within(inputs, best, homes, 1.0):
            best = _by_all(inputs, best, homes, concerned)
    near = 1.0 if cells * _FEW_CELLS <= policy.exact_cells else _NEAR
    if by_heavy and not _is_within(inputs, best, homes, near, _NEXT_TO_NOTHING):
        best = _by_the_heavy(inputs, best, homes, small, _LAST_BUDGET)
    return best


def _has_small_partitions(inputs: PackingInput, heavy: int) -> bool:
    return (
        inputs.dimensions == 1 and 0 < heavy < len(inputs.sizes) and int(inputs.sizes.sum()) <= _LARGEST_SUM
    )


def _by_the_heavy(
    inputs: PackingInput,
    best: RepairedPlacement,
    homes: TaskOf,
    small: _SmallPartitions,
    budget: _SolverBudget,
) -> RepairedPlacement:
    """Place the heavy partitions with the solver and repack the small ones, in turns until both agree."""
    tasks, sizes = best.state.tasks, inputs.sizes[:, 0]
    rooms, left = np.repeat(inputs.room, tasks), budget.in_all * inputs.effort
    seed = inputs.seed
    for _ in range(budget.rounds):
        effort = min(budget.each * inputs.effort, left)
        answer = fewest_moved_of_heavy(sizes, homes, rooms, small.heavy, small.staying, effort, seed)
        best = replace(best, least=max(best.least, answer.bound))
        left -= answer.work
        if answer.task_of is not None:
            settled = _settle(inputs, answer.task_of, homes, small.heavy, tasks)
            best = _better(inputs, best, settled.state, homes)
        if left <= 0 or _is_within(inputs, best, homes, 1.0, _NEXT_TO_NOTHING):
            break
        if not answer.proved:
            seed += 1
        elif answer.task_of is None or not small.learn(settled.evictions):
            break
    return best


@dataclass(frozen=True, slots=True)
class _TaskEviction:
    """Small partitions that leave a task because its load exceeds its room by `excess` units."""

    excess: int
    cover: Cover
    given: int


@dataclass(frozen=True, slots=True)
class _Settled:
    state: Arrangement
    evictions: Mapping[int, _TaskEviction]


def _settle(inputs: PackingInput, placed: TaskOf, homes: TaskOf, heavy: int, tasks: int) -> _Settled:
    """Keep the heavy partitions in place, and move the lightest small partitions out of overfull tasks."""
    sizes, task_of = inputs.sizes[:, 0], placed.copy()
    above = Arrangement(inputs.sizes, placed, tasks).loads[:, 0] - int(inputs.room[0])
    evictions = {}
    for task in np.flatnonzero(above > 0).tolist():
        own = heavy + np.flatnonzero(placed[heavy:] == task)
        cover = cheapest_cover(own, sizes[own], int(above[task]))
        evictions[task] = _TaskEviction(int(above[task]), cover, int(sizes[cover.taken].sum()))
        task_of[cover.taken] = -1
    return _Settled(place_homeless(inputs, task_of, homes, tasks).state, evictions)


class _SmallPartitions:
    """Small partitions, whose exact sizes the solver does not see: all except the first `heavy` ranks.

    `staying`: by task, known feasible sums (first to last, units) of the small partitions that stay at home.
    """

    def __init__(self, sizes: Ints, homes: TaskOf, heavy: int) -> None:
        self._sizes, self._homes, self.heavy = sizes, homes, heavy
        self.staying: dict[int, Ranges] = {}

    def learn(self, evictions: Mapping[int, _TaskEviction]) -> bool:
        """Record which sums are possible in tasks that gave away more than the solver assumed.

        Return True if any record is new.
        """
        before = dict(self.staying)
        for task, eviction in evictions.items():
            if eviction.given <= eviction.excess + NEGLIGIBLE_UNITS:
                continue
            sizes = self._own(task)
            ranges = self.staying.get(task) or _sums(sizes)
            if eviction.cover.least == eviction.given:
                whole = int(sizes.sum())
                ranges = _without(ranges, whole - eviction.given, whole - eviction.excess)
            self.staying[task] = ranges
        return self.staying != before

    def _own(self, task: int) -> Ints:
        sizes = self._sizes[self.heavy :][self._homes[self.heavy :] == task]
        return np.asarray(sizes[sizes > 0])


def _sums(sizes: Ints) -> Ranges:
    """Return ranges of numbers that contain the sum of every subset of the sizes.

    The smallest and the largest sums are exact; one range covers the sums between them.
    """
    whole = int(sizes.sum())
    small = smallest_sums(sizes, _SUMS)
    large = whole - small[::-1]
    single = np.unique(np.concatenate((small, large))).tolist()
    ranges = [(value, value) for value in single]
    if len(small) == _SUMS and small[-1] < large[0]:
        ranges.append((int(small[-1]), int(large[0])))
    return sorted(ranges)


def _without(ranges: Ranges, below: int, above: int) -> Ranges:
    """Remove the values above `below`, up to and including `above`, from ranges of numbers."""
    kept = [(first, min(last, below)) for first, last in ranges if first <= below]
    return kept + [(max(first, above + 1), last) for first, last in ranges if last > above]


def _better(
    inputs: PackingInput, best: RepairedPlacement, other: Arrangement, homes: TaskOf
) -> RepairedPlacement:
    if not _is_right(inputs, other):
        return best
    moved = moved_units(inputs.sizes, homes, other.task_of)
    if _is_right(inputs, best.state) and moved_units(inputs.sizes, homes, best.state.task_of) <= moved:
        return best
    return RepairedPlacement(other, "solver", best.least)


def _by_all(
    inputs: PackingInput, best: RepairedPlacement, homes: TaskOf, concerned: Ranks
) -> RepairedPlacement:
    """Place all partitions in `concerned` with the solver, heavy and small ones."""
    state = best.state
    rooms = np.broadcast_to(inputs.room, (state.tasks, inputs.dimensions))
    incumbent = state.task_of[concerned] if _is_right(inputs, state) else None
    sizes = inputs.sizes[concerned]
    effort = _FOR_ALL * inputs.effort
    answer = fewest_moved(sizes, homes[concerned], incumbent, rooms, inputs.limits, effort, inputs.seed)
    least = max(best.least, answer.bound)
    if answer.task_of is None:
        return replace(best, least=least)
    task_of = state.task_of.copy()
    task_of[concerned] = answer.task_of
    return RepairedPlacement(Arrangement(inputs.sizes, task_of, state.tasks), "solver", least)


def _is_within(
    inputs: PackingInput, best: RepairedPlacement, homes: TaskOf, ratio: float, units: int = 0
) -> bool:
    """Return whether a placement is valid and moves at most the lower bound times `ratio`, plus `units`."""
    moved = moved_units(inputs.sizes, homes, best.state.task_of)
    return _is_right(inputs, best.state) and moved <= best.least * ratio + units


def _is_right(inputs: PackingInput, state: Arrangement) -> bool:
    """Return whether all partitions are placed, within the room and the limits."""
    if not bool((state.task_of >= 0).all()) or not bool((state.loads <= inputs.room).all()):
        return False
    return bool(inputs.limits.allows(state.counts).all())
