"""Replaces many moves of small partitions by fewer moves, at the cost of slightly more bytes.

Each move pauses a partition, whatever its size. An incremental plan moves the fewest bytes, often in many
light partitions. A plan that moves one heavy partition instead of several light ones may move slightly more
bytes but pauses fewer partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.bounds.lower_bounds import moves_bound
from assigner.problem.policy import Policy
from assigner.problem.problem import Ints, PlacementProblem, Ranks, moved_units
from assigner.search.arrangement import Arrangement
from assigner.search.exact import MovedBytes, fewest_moves
from assigner.stages.eviction import Mask
from assigner.stages.hysteresis import carried
from assigner.stages.incremental import StickyPlacement

_PASSES: Final = 3
_FIRST_CHOICES: Final = 6
"""Number of heaviest partitions that are tried as the first partition of a set."""
_LARGEST_SET: Final = 8
SOLVER_CELLS: Final = 5_000
"""Maximum size of a case (partitions times tasks) for which the solver is used."""


def with_fewer_moves(problem: PlacementProblem, policy: Policy, kept: StickyPlacement) -> StickyPlacement:
    """Return a placement with fewer moves, and at most `policy.move_slack` more bytes than the minimum.

    A task that gives away several partitions instead gives away as few heavy partitions as possible. In small
    cases, the solver then improves the placement.
    """
    if not (kept.reached and kept.fits and policy.move_slack):
        return kept
    moved = moved_units(problem.sizes, problem.home, kept.task_of)
    allowed = max(moved, int(kept.moved_bound * (1 + policy.move_slack)))
    search = _MoveSearch(
        problem, kept, Arrangement(problem.sizes, kept.task_of, len(kept.alive)), allowed - moved
    )
    for _ in range(_PASSES):
        if not sum(search.improve(giver) for giver in search.givers()):
            break
    return _solved(problem, policy, replace(kept, task_of=search.state.task_of), allowed)


def _solved(
    problem: PlacementProblem, policy: Policy, kept: StickyPlacement, allowed: int
) -> StickyPlacement:
    """Let the solver find fewer moves within the target, unless their number is already minimal."""
    within = (carried(problem.sizes, kept.task_of, len(kept.alive)) <= kept.target).all(axis=1)
    tasks = np.flatnonzero(kept.alive & within)
    local = np.full(len(kept.alive) + 1, -1, np.int32)  # the last entry is that of partitions without a home
    local[tasks] = np.arange(len(tasks))
    ranks = np.flatnonzero(local[kept.task_of] >= 0)
    if len(ranks) * len(tasks) > min(policy.exact_cells, SOLVER_CELLS):
        return kept
    sizes, homes, now = problem.sizes[ranks], local[problem.home[ranks]], local[kept.task_of[ranks]]
    moves = int(((homes >= 0) & (now != homes)).sum())
    if moves <= moves_bound(sizes, homes, kept.target):
        return kept
    allowed -= moved_units(problem.sizes, problem.home, kept.task_of) - moved_units(sizes, homes, now)
    rooms = np.broadcast_to(kept.target, (len(tasks), problem.dimensions))
    answer = fewest_moves(
        sizes, homes, now, rooms, problem.per_task, MovedBytes(allowed, policy.effort, policy.seed)
    )
    if answer.task_of is None:
        return kept
    task_of = kept.task_of.copy()
    task_of[ranks] = tasks[answer.task_of]
    return replace(kept, task_of=task_of)


@dataclass(slots=True)
class _MoveSearch:
    """Search for fewer partitions to move. `slack`: additional units of load that may move for this."""

    problem: PlacementProblem
    kept: StickyPlacement
    state: Arrangement
    slack: int

    def givers(self) -> list[int]:
        """Return the tasks from which at least two partitions move away and that remain.

        The tasks that give away the most partitions come first.
        """
        home, alive = self.problem.home, self.kept.alive
        leaves = (home >= 0) & (self.state.task_of != home)
        leaves[leaves] = alive[home[leaves]]
        tasks, counts = np.unique(home[leaves], return_counts=True)
        several = counts > 1
        return list(tasks[several][np.argsort(-counts[several], kind="stable")].tolist())

    def improve(self, giver: int) -> bool:
        """Replace the partitions that leave a task by a smaller set. Return False if no smaller set was
        found."""
        state, sizes = self.state, self.problem.sizes
        leaving = np.flatnonzero((self.problem.home == giver) & (state.task_of != giver))
        if len(leaving) < 2:
            return False
        units = int(sizes[leaving, 0].sum())
        stay = state.members(giver)
        candidates = np.sort(np.concatenate((leaving, stay[self.problem.home[stay] == giver])))
        rooms = self._rooms_without(leaving, giver)
        need = state.loads[giver] + sizes[leaving].sum(axis=0) - self.kept.target
        extra = int(state.counts[giver]) + len(leaving)
        least = extra - self.problem.per_task.most(extra)
        for count in range(max(1, least), min(len(leaving), _LARGEST_SET + 1)):
            chosen = self._choose(candidates, need, rooms, count, units + self.slack)
            if chosen is not None:
                self._apply(giver, leaving, chosen)
                self.slack += units - int(sizes[list(chosen), 0].sum())
                return True
        return False

    def _rooms_without(self, leaving: Ranks, giver: int) -> _Rooms:
        """Return the free room in tasks before they receive the partitions that leave the giver."""
        loads, counts = self.state.loads.copy(), self.state.counts.copy()
        np.subtract.at(loads, self.state.task_of[leaving], self.problem.sizes[leaving])
        np.subtract.at(counts, self.state.task_of[leaving], 1)
        open_to = self.kept.alive.copy()
        open_to[giver] = False
        return _Rooms(self.kept.target - loads, counts, open_to, self.problem)

    def _choose(
        self, candidates: Ranks, need: Ints, rooms: _Rooms, count: int, budget: int
    ) -> dict[int, int] | None:
        """Choose `count` partitions whose load covers `need`, and map each to its new task. Return None if no
        set of this size covers the need."""
        if count == 1:
            return self._from(candidates, candidates, need, rooms, count, budget)
        heavy = candidates[self.problem.sizes[candidates, 0] <= min(budget, rooms.largest)]
        for first in heavy[:_FIRST_CHOICES].tolist():
            chosen = self._from(np.array([first]), candidates, need, rooms, count, budget)
            if chosen is not None:
                return chosen
        return None

    def _from(
        self, firsts: Ranks, candidates: Ranks, need: Ints, rooms: _Rooms, count: int, budget: int
    ) -> dict[int, int] | None:
        """Choose a set of partitions that starts with the first of `firsts` for which a task has room."""
        sizes, chosen = self.problem.sizes, dict[int, int]()
        need, rooms = need.copy(), rooms.copy()
        for number in range(count):
            free = candidates[~np.isin(candidates, list(chosen))] if chosen else firsts
            if number == count - 1:
                covers = free[(sizes[free] >= need).all(axis=1) & (sizes[free, 0] <= budget)]
                options = covers[::-1]
            elif chosen:
                options = free[sizes[free, 0] <= min(budget, max(int(need[0]), 0))]
            else:
                options = firsts
            placed = rooms.place_first(options)
            if placed is None:
                return None
            rank, task = placed
            chosen[rank] = task
            need -= sizes[rank]
            budget -= int(sizes[rank, 0])
        return chosen

    def _apply(self, giver: int, leaving: Ranks, chosen: dict[int, int]) -> None:
        for rank in leaving.tolist():
            self.state.transfer(int(self.state.task_of[rank]), giver, np.array([rank]))
        for rank, task in chosen.items():
            self.state.transfer(giver, task, np.array([rank]))


@dataclass(slots=True)
class _Rooms:
    """Free room in each task. `free`: int64[T, D]. `counts`: int64[T], partitions. `open_to`: bool[T], may
    receive partitions."""

    free: Ints
    counts: npt.NDArray[np.int64]
    open_to: Mask
    problem: PlacementProblem

    @property
    def largest(self) -> int:
        """Largest free room in a task, in units."""
        return int(self.free[self.open_to, 0].max(initial=0))

    def copy(self) -> _Rooms:
        """Return a copy that may be modified."""
        return replace(self, free=self.free.copy(), counts=self.counts.copy())

    def place_first(self, options: Ranks) -> tuple[int, int] | None:
        """Place the first of the partitions for which a task has room; return the partition and the task.

        The task with the least sufficient room is chosen.
        """
        admits = self.open_to & self.problem.per_task.admits(self.counts)
        free = self.free[admits]
        if not len(free):
            return None
        tasks = np.flatnonzero(admits)
        largest = int(free[:, 0].max())
        for rank in options[self.problem.sizes[options, 0] <= largest].tolist():
            size = self.problem.sizes[rank]
            fits = np.flatnonzero((free >= size).all(axis=1))
            if len(fits):
                task = int(tasks[fits[np.argmin(free[fits, 0])]])
                self.free[task] -= size
                self.counts[task] += 1
                return rank, task
        return None
