"""Chooses the set of partitions that each task keeps, so that the fewest bytes move (one dimension).

The method is column generation.

There are two kinds of columns: a task with the partitions that it keeps, whose cost is the bytes that it
gives away, and a pattern of sizes that fills the remaining room of some task. One linear program couples the
two kinds: all partitions that are given away or new are in a pattern, and the number of patterns of a weight
is at most the number of tasks with that much room. Tasks with equal room, and partitions of equal size, are
interchangeable, which reduces the number of equivalent solutions. Prices of sizes make the best kept set of a
task a knapsack problem, and one knapsack over all sizes prices the patterns of every weight (Gilmore and
Gomory, "A linear programming approach to the cutting stock problem", Operations Research 9, 1961). The bound
is the Lagrangian bound of Savelsbergh, "A branch-and-price algorithm for the generalized assignment problem",
Operations Research 45 (1997), with tasks that may stay empty: the choice includes the tasks to remove.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.problem import Ints, TaskOf, moved_units
from assigner.search.exact import PackingColumn, RowProgram, SolverAnswer, cheapest_whole

_FINEST: Final = 1_000
"""Maximum number of exact steps into which a task's room is divided.

If more steps are needed, the room is divided into `_COARSE` steps.
"""
_COARSE: Final = 200
_MOST_A_TASK: Final = 8
"""Average number of partitions per task above which simpler stages are used."""
_MOST_PARTITIONS: Final = 400
_ALL_SETS: Final = 6
"""Maximum number of partitions of a task for which all kept sets are initial columns."""
_ROUNDS: Final = 80
_PENALTY: Final = 3
"""Cost of a partition without a task, as a multiple of a task's room."""


@dataclass(frozen=True, slots=True)
class KeptSetsQuestion:
    """Input for choosing the partitions that each task keeps (its kept set).

    `sizes`: int64[n] in units, none above `room`. `homes`: int32[n], task in which a partition costs nothing;
    -1 for no cost in any task. `tasks`: number of available tasks; `most`: maximum number of tasks that may
    have partitions. `incumbent`: a valid placement, if any. `effort`: factor for all limits.
    """

    sizes: Ints
    homes: TaskOf
    tasks: int
    most: int
    room: int
    incumbent: TaskOf | None
    effort: float
    seed: int


def is_affordable(partitions: int, tasks: int) -> bool:
    """Return whether partitions are few and large enough for choosing kept sets.

    If partitions are large relative to a task, packing dominates the cost of moves.
    """
    return 0 < partitions <= _MOST_PARTITIONS and partitions <= _MOST_A_TASK * tasks


def is_on_a_grid(sizes: Ints, room: int) -> bool:
    """Return whether sizes have a common divisor that divides the room into few steps. `sizes`: all above
    0."""
    return room // int(np.gcd.reduce(sizes)) <= _FINEST


def fewest_moved_by_sets(question: KeptSetsQuestion) -> SolverAnswer:
    """Return the placement that moves the fewest bytes and uses at most `most` of the tasks.

    `task_of`: None if no placement is better than the incumbent. `bound`: lower bound, in units, on the moves
    of any placement that uses `most` of the tasks.
    """
    carrying = np.flatnonzero(question.sizes > 0)
    if question.most < 1 or not is_affordable(len(carrying), question.most):
        return SolverAnswer(None, proved=False)
    inner = replace(
        question,
        sizes=question.sizes[carrying],
        homes=question.homes[carrying],
        incumbent=None if question.incumbent is None else question.incumbent[carrying],
    )
    answer = _Generation(inner).run()
    if answer.task_of is None:
        return answer
    return replace(answer, task_of=_with_silent(question, carrying, answer.task_of))


def _with_silent(question: KeptSetsQuestion, carrying: Ints, placed: TaskOf) -> TaskOf:
    """Add the partitions without load to a placement.

    Partitions stay if their task stays; otherwise they get the task with the fewest partitions.
    """
    task_of = question.homes.copy()
    task_of[carrying] = placed
    used = np.unique(placed)
    homeless = (task_of < 0) | ~np.isin(task_of, used)
    counts = np.bincount(task_of[~homeless], minlength=question.tasks)
    for rank in np.flatnonzero(homeless).tolist():
        task = int(used[counts[used].argmin()])
        task_of[rank] = task
        counts[task] += 1
    return task_of


class _Grid:
    """Sizes of partitions in whole steps of a task's room, rounded up and down. `unit`: common divisor of all
    sizes."""

    def __init__(self, sizes: Ints, room: int) -> None:
        self.unit = int(np.gcd.reduce(sizes))
        step = self.unit if is_on_a_grid(sizes, room) else -(-room // _COARSE)
        self.room = room // step
        self.above = -(-sizes // step)
        self.below = sizes // step


@dataclass(frozen=True, slots=True)
class _KeptSet:
    """A task, and the subset of its current partitions that it keeps."""

    task: int
    items: tuple[int, ...]


Mask = npt.NDArray[np.bool_]
_Pattern = tuple[int, ...]
"""Weights of partitions that a task receives, descending."""


class _Generation:
    """Linear program that chooses kept sets, with its current columns. Its rows are tasks, weights of
    partitions, levels of remaining room, and the limit on tasks."""

    def __init__(self, question: KeptSetsQuestion) -> None:
        self._question = question
        self._grid = _Grid(question.sizes, question.room)
        self._weights = np.unique(self._grid.above)
        self._class_of = np.searchsorted(self._weights, self._grid.above)
        self._own = [np.flatnonzero(question.homes == task) for task in range(question.tasks)]
        self._columns: dict[_KeptSet | _Pattern, int] = {}
        self._program = self._empty_program()

    def _empty_program(self) -> RowProgram:
        tasks, kinds, levels = self._question.tasks, len(self._weights), self._grid.room
        new = np.bincount(self._class_of[self._question.homes < 0], minlength=kinds)
        held = np.array([len(own) > 0 for own in self._own])
        self._first_weight, self._first_level = tasks, tasks + kinds
        self._all = tasks + kinds + levels + 1
        lows: list[float] = [*held.astype(float), *new.astype(float), *[-np.inf] * (levels + 1), -np.inf]
        highs: list[float] = (
            [1.0] * tasks + [np.inf] * kinds + [0.0] * (levels + 1) + [float(self._question.most)]
        )
        program = RowProgram(lows, highs)
        for level in range(1, levels + 1):
            program.add(
                PackingColumn(0, {self._first_level + level: 1, self._first_level + level - 1: -1}, tasks)
            )
        penalty = _PENALTY * self._question.room
        for kind in range(kinds):
            program.add(PackingColumn(penalty, {tasks + kind: 1}, len(self._question.sizes)))
        for task, own in enumerate(self._own):
            if len(own):
                given = Counter((tasks + self._class_of[own]).tolist())
                cost = int(self._question.sizes[own].sum())
                program.add(
                    PackingColumn(cost, {task: 1, **{row: -count for row, count in given.items()}}, 1)
                )
        return program

    def run(self) -> SolverAnswer:
        """Generate columns until the bound is met, then choose an integral solution."""
        question = self._question
        self._start()
        bound = self._converge()
        before = self._moved_before()
        if bound > int(question.sizes.sum()):
            return SolverAnswer(None, proved=True)
        if before is not None and before <= bound:
            return SolverAnswer(None, proved=True, bound=bound)
        counts, work = cheapest_whole(self._program, self._hint(), question.effort, question.seed)
        task_of = None if counts is None else self._placed(counts)
        if task_of is not None and before is not None and self._moved(task_of) >= before:
            task_of = None
        proved = task_of is not None and self._moved(task_of) <= bound
        return SolverAnswer(task_of, proved=proved, bound=bound, work=work)

    def _moved(self, task_of: TaskOf) -> int:
        return moved_units(self._question.sizes[:, None], self._question.homes, task_of)

    def _moved_before(self) -> int | None:
        incumbent = self._question.incumbent
        return None if incumbent is None else self._moved(incumbent)

    def _start(self) -> None:
        for task, own in enumerate(self._own):
            for mask in range(1 << min(len(own), _ALL_SETS)):
                if len(own) > _ALL_SETS and mask:
                    break
                self._add(
                    _KeptSet(
                        task, tuple(own[[bool(mask >> place & 1) for place in range(len(own))]].tolist())
                    )
                )
            self._add(_KeptSet(task, tuple(own.tolist())))
        for kept, pattern in self._incumbent():
            self._add(kept)
            self._add(pattern)

    def _incumbent(self) -> list[tuple[_KeptSet, _Pattern]]:
        """Return the columns that represent the placement to improve."""
        incumbent, found = self._question.incumbent, []
        if incumbent is None:
            return []
        for task in np.unique(incumbent).tolist():
            held = np.flatnonzero(incumbent == task)
            is_own = self._question.homes[held] == task
            found.append((_KeptSet(task, tuple(held[is_own].tolist())), self._pattern(held[~is_own])))
        return found

    def _pattern(self, items: Ints) -> _Pattern:
        return tuple(sorted(self._grid.above[items].tolist(), reverse=True))

    def _hint(self) -> dict[int, int]:
        found: Counter[int] = Counter()
        for pair in self._incumbent():
            found.update(self._columns[task] for task in pair if task in self._columns)
        return dict(found)

    def _add(self, column: _KeptSet | _Pattern) -> bool:
        if column in self._columns or not column:
            return False
        if not isinstance(column, _KeptSet) and sum(column) > self._grid.room:
            return False
        entries: Counter[int] = Counter()
        cost, most = 0, len(self._question.sizes)
        if isinstance(column, _KeptSet):
            own, kept = self._own[column.task], list(column.items)
            level = self._grid.room - int(self._grid.above[kept].sum())
            if level < 0:
                return False
            given = own[~np.isin(own, kept)]
            entries.update({column.task: 1, self._all: 1, self._first_level + level: -1})
            entries.subtract((self._first_weight + self._class_of[given]).tolist())
            cost, most = int(self._question.sizes[given].sum()), 1
        else:
            entries.update((self._first_weight + np.searchsorted(self._weights, list(column))).tolist())
            entries[self._first_level + sum(column)] += 1
        self._columns[column] = self._program.add(PackingColumn(cost, dict(entries), most))
        return True

    def _converge(self) -> int:
        """Add columns until none improves the linear program; return the lower bound.

        The bound is a multiple of the common divisor of sizes.
        """
        unit, best = self._grid.unit, 0
        for _ in range(max(1, int(_ROUNDS * self._question.effort))):
            value, duals = self._program.solve()
            if duals is None:
                break
            prices = np.floor(np.maximum(duals[self._first_weight : self._first_level], 0)).astype(np.int64)
            levels = -duals[self._first_level : self._all]
            best = max(best, self._bound(prices))
            if value <= best + unit / 2 or not self._grow(prices, levels):
                break
        return -(-best // unit) * unit

    def _bound(self, prices: Ints) -> int:
        """Return the lower bound on moved units that the prices prove. Sizes are rounded down to the grid."""
        question, below = self._question, self._grid.below
        worth = prices[self._class_of]
        beside = self._filled(below, worth)[0]
        own_worth = worth + np.where(question.homes >= 0, question.sizes, 0)
        gains = np.zeros(question.tasks, np.int64)
        for task, own in enumerate(self._own):
            table = beside.copy()
            for item in own.tolist():
                _with_item(table, int(below[item]), int(own_worth[item]))
            gains[task] = table[-1]
        return int(own_worth.sum()) - int(np.sort(gains)[::-1][: question.most].sum())

    def _filled(self, weights: Ints, worth: Ints) -> tuple[Ints, list[tuple[int, Mask]]]:
        """Return the highest value that fits into each amount of room (int64[room + 1]), and for each
        partition where it raises that value."""
        table = np.zeros(self._grid.room + 1, np.int64)
        useful = np.flatnonzero((worth > 0) & (weights <= self._grid.room)).tolist()
        taken = [(item, _with_item(table, int(weights[item]), int(worth[item]))) for item in useful]
        return table, taken

    def _grow(self, prices: Ints, levels: npt.NDArray[np.float64]) -> bool:
        """Add the most valuable pattern of each weight, and the most valuable kept set of each task.

        Return False if the program already has all of them.
        """
        table, taken = self._filled(self._grid.above, prices[self._class_of])
        wanted = np.flatnonzero(table > levels + 1)
        grown = False
        for items in self._traced(taken, wanted):
            grown |= self._add(self._pattern(np.array(items, np.int64)))
        for task, own in enumerate(self._own):
            if len(own) > _ALL_SETS:
                grown |= self._add(self._best_kept(task, own, prices, levels))
        return grown

    def _best_kept(self, task: int, own: Ints, prices: Ints, levels: npt.NDArray[np.float64]) -> _KeptSet:
        table = np.floor(levels).astype(np.int64)
        taken = []
        for item in own.tolist():
            worth = int(self._question.sizes[item] + prices[self._class_of[item]])
            taken.append((item, _with_item(table, int(self._grid.above[item]), worth)))
        (items,) = self._traced(taken, np.array([self._grid.room]))
        return _KeptSet(task, tuple(sorted(items)))

    def _traced(self, taken: list[tuple[int, Mask]], rooms: Ints) -> list[list[int]]:
        """Return the most valuable set of partitions for each amount of room."""
        left = rooms.copy()
        held: list[list[int]] = [[] for _ in rooms]
        for item, better in reversed(taken):
            weight = int(self._grid.above[item])
            places = np.flatnonzero(left >= weight)
            places = places[better[left[places] - weight]]
            left[places] -= weight
            for place in places.tolist():
                held[place].append(item)
        return held

    def _placed(self, counts: list[int]) -> TaskOf | None:
        """Convert the chosen kept sets and patterns to a placement; None if they do not cover all partitions.

        Patterns are assigned to tasks with enough room, heaviest first.
        """
        question, weights = self._question, self._grid.above
        task_of = np.full(len(question.sizes), -1, np.int32)
        left: dict[int, int] = {}
        patterns: list[_Pattern] = []
        for choice, column in self._columns.items():
            if not counts[column]:
                continue
            if isinstance(choice, _KeptSet):
                task_of[list(choice.items)] = choice.task
                left[choice.task] = self._grid.room - int(weights[list(choice.items)].sum())
            else:
                patterns += [choice] * counts[column]
        waiting: dict[int, list[int]] = {}
        for item in np.flatnonzero(task_of < 0).tolist():
            waiting.setdefault(int(weights[item]), []).append(item)
        roomy = sorted(left, key=lambda task: (-left[task], task))
        for pattern, task in zip(
            sorted(patterns, key=lambda pattern: (-sum(pattern), pattern)), roomy, strict=False
        ):
            for weight in pattern:
                if (items := waiting.get(weight)) and weight <= left[task]:
                    task_of[items.pop()] = task
                    left[task] -= weight
        return task_of if (task_of >= 0).all() else None


def _with_item(table: Ints, weight: int, worth: int) -> Mask:
    """Add one partition to the knapsack table, and return at which amounts of room it raises the value, as a
    mask.

    The mask starts at the partition's weight.
    """
    room = len(table) - 1
    if weight > room:
        return np.zeros(0, dtype=bool)
    with_it = table[: room + 1 - weight] + worth
    better = with_it > table[weight:]
    np.maximum(table[weight:], with_it, out=table[weight:])
    return np.asarray(better)
