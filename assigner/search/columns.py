"""Packs partitions that are large relative to a task: column generation, then fixing columns one at a time.

A column is a set of partitions that fits into one task. The linear program over columns (Gilmore and Gomory,
"A linear programming approach to the cutting stock problem", Operations Research 9, 1961) gives a lower bound
that is rarely more than one below the optimum. Fixing its largest columns one after another and generating
new ones in between gives a placement.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints, TaskOf
from assigner.search.exact import CoverProgram, fits
from assigner.search.greedy import best_fit

_TINY: Final = 1e-9


class Pricing:
    """Bounded knapsack that finds the most valuable column. A column is a set of partitions that fits into
    one task."""

    def __init__(self, sizes: Ints, room: int, limits: Limits) -> None:
        self._sizes = sizes.tolist()
        self._room = room
        self.limits = limits

    def best(self, values: list[float], demands: list[int]) -> tuple[float, dict[int, int]]:
        """Return the value and the content of the most valuable column; approximate if a limit ends the
        search."""
        pieces = self._pieces(values, demands)
        table = np.zeros(self._room + 1)
        taken: list[npt.NDArray[np.bool_]] = []
        for _, count, size, value in pieces:
            width = count * size
            with_piece = table[: self._room + 1 - width] + count * value
            better = with_piece > table[width:] + _TINY
            taken.append(better)
            table[width:] = np.where(better, with_piece, table[width:])
        return float(table[self._room]), self._trace(pieces, taken)

    def _pieces(self, values: list[float], demands: list[int]) -> list[tuple[int, int, int, float]]:
        """Split the demand of each partition size into (kind, count, size, value) with counts 1, 2, 4, …

        Partitions without load come first, so that under limits `_trace` prefers the others.
        """
        pieces = []
        for kind, (value, demand) in enumerate(zip(values, demands, strict=True)):
            size = self._sizes[kind]
            most = min(demand, self._room // size if size else demand)
            if value <= _TINY:
                continue
            step = 1
            while most > 0:
                count = min(step, most)
                pieces.append((kind, count, size, value))
                most -= count
                step *= 2
        return sorted(pieces, key=lambda piece: piece[2] > 0)

    def _trace(
        self, pieces: list[tuple[int, int, int, float]], taken: list[npt.NDArray[np.bool_]]
    ) -> dict[int, int]:
        column: dict[int, int] = {}
        room, held = self._room, 0
        for (kind, count, size, _), better in zip(reversed(pieces), reversed(taken), strict=True):
            width = count * size
            if width <= room and better[room - width]:
                allowed = self.limits.most(held + count) - held
                room -= width
                held += allowed
                if allowed:
                    column[kind] = column.get(kind, 0) + allowed
        return column


LARGEST: Final = 1_500
"""Maximum number of partitions for which this stage is tried."""

_GRID: Final = 20_000
_EXACT_CELLS: Final = 5_000_000
_CELLS: Final = 3_000_000_000
_ROUNDS: Final = 3_000
_SLACK: Final = 1e-6
_CHOICES: Final = 6
_RETREATS: Final = 12
_RETREAT: Final = 4
_NOISE: Final = 0.5
_SEED: Final = 1
_REST: Final = 24
"""Number of partitions at the end of a dive that are passed to CP-SAT."""


@dataclass(frozen=True, slots=True)
class ColumnPacking:
    """Result of packing by columns. `task_of`: None if the tasks do not suffice. `bound`: lower bound on
    tasks."""

    task_of: TaskOf | None
    bound: int


def is_affordable(partitions: int, tasks: int) -> bool:
    """Return whether the partitions, in total and per task, are few enough for column generation."""
    return partitions <= LARGEST and partitions <= 12 * tasks


def generate_and_dive(
    sizes: Ints, room: int, limits: Limits, wanted: int, effort: float = 1.0
) -> ColumnPacking:
    """Try to pack partitions of int64[n] `sizes` into `wanted` tasks with capacity `room`."""
    kinds = _Kinds.of(sizes, room)
    pricing = Pricing(kinds.grid_sizes, kinds.grid_room, limits)
    rounds = int(min(_ROUNDS, _CELLS // max(1, len(sizes) * kinds.grid_room)) * effort)
    program = _Program(kinds, pricing, rounds)
    bound = program.converge() if kinds.exact else 0
    if bound > wanted:
        return ColumnPacking(None, bound)
    for columns in program.dives(wanted):
        placed = kinds.assign(columns, sizes, room, limits, wanted)
        if placed is not None:
            return ColumnPacking(placed, bound)
    return ColumnPacking(None, bound)


@dataclass(frozen=True, slots=True)
class _Kinds:
    """Partitions grouped by size, which is measured in steps of a grid. `exact`: True if all sizes are whole
    steps."""

    grid_sizes: Ints
    grid_room: int
    demands: list[int]
    members: list[list[int]]
    exact: bool

    @classmethod
    def of(cls, sizes: Ints, room: int) -> _Kinds:
        shared = int(np.gcd.reduce(sizes[sizes > 0], initial=0)) or 1
        fine = len(sizes) * (room // shared) <= _EXACT_CELLS
        step = shared if fine else -(-room // min(_GRID, _GRID * 200 // len(sizes)))
        on_grid = -(-sizes // step)
        values = np.unique(on_grid)[::-1]
        members = [np.flatnonzero(on_grid == value).tolist() for value in values]
        demands = [len(ranks) for ranks in members]
        return cls(values, room // step, demands, members, step == shared)

    def assign(
        self, columns: list[dict[int, int]], sizes: Ints, room: int, limits: Limits, wanted: int
    ) -> TaskOf | None:
        """Assign partitions to the tasks that columns describe, and fit the remaining partitions into the
        other tasks."""
        task_of = np.full(len(sizes), -1, np.int32)
        waiting = [list(ranks) for ranks in self.members]
        for task, column in enumerate(columns):
            for kind, count in column.items():
                for rank in waiting[kind][:count]:
                    task_of[rank] = task
                waiting[kind] = waiting[kind][count:]
        left = np.array(sorted(rank for ranks in waiting for rank in ranks), dtype=np.int64)
        if len(left):
            fresh = _place_rest(sizes[left], room, limits, wanted - len(columns))
            if fresh is None:
                return None
            task_of[left] = fresh + len(columns)
        return task_of


def _place_rest(sizes: Ints, room: int, limits: Limits, tasks: int) -> TaskOf | None:
    fresh = best_fit(sizes, room, tasks, limits)
    if (fresh >= 0).all():
        return fresh
    if tasks < 1 or len(sizes) > _REST:
        return None
    return fits(sizes[:, None], tasks, np.array([room]), limits, 1.0, 1).task_of


class _Program:
    """Linear program of column generation with its columns, and the search for an integral solution."""

    def __init__(self, kinds: _Kinds, pricing: Pricing, rounds: int) -> None:
        self._demands = list(kinds.demands)
        self._pricing = pricing
        self._rounds = rounds
        self._columns: list[dict[int, int]] = []
        self._known: set[tuple[tuple[int, int], ...]] = set()
        self._cover = CoverProgram(self._demands)
        for kind in range(len(self._demands)):
            self._add({kind: 1})
        start = np.repeat(np.arange(len(self._demands)), self._demands)
        sizes = kinds.grid_sizes[start]
        tasks = best_fit(sizes, kinds.grid_room, len(sizes), pricing.limits)
        for task in range(int(tasks.max(initial=-1)) + 1):
            held = start[tasks == task].tolist()
            self._add({kind: held.count(kind) for kind in sorted(set(held))})

    def _add(self, column: dict[int, int]) -> bool:
        """Add a column to the linear program; return False if it already exists.

        Pricing with limits can find the same column again.
        """
        key = tuple(sorted(column.items()))
        if key in self._known:
            return False
        self._known.add(key)
        self._columns.append(column)
        self._cover.add_column(column)
        return True

    def converge(self) -> int:
        """Generate columns until none improves the linear program; return the lower bound on tasks.

        The bound (Farley, 1990) is valid after every iteration.
        """
        best = 0.0
        while self._rounds > 0:
            self._rounds -= 1
            value, duals = self._cover.solve()
            worth, column = self._pricing.best(duals, self._demands)
            best = max(best, value / max(worth, 1.0))
            if worth <= 1.0 + 1e-7 or not self._add(column):
                break
            if math.ceil(best - 1e-6) >= math.ceil(value - 1e-6):
                break
        return math.ceil(best - 1e-6)

    def dives(self, wanted: int) -> Iterator[list[dict[int, int]]]:
        """Fix columns until few partitions remain, and repeat with other choices until none is left.

        Columns with integral uses are fixed at once. Among the other columns, the most used one is fixed
        first, and released if the remaining partitions would need too many tasks. After a dead end, or if the
        caller could not place the rest, the last columns are released, more each time, and later choices are
        randomized slightly.
        """
        fixed: list[dict[int, int]] = []
        random = np.random.default_rng(_SEED)
        for retreat in range(_RETREATS):
            if self._descend(fixed, wanted, _NOISE if retreat else 0.0, random):
                yield [column for column in fixed if column]
            if self._rounds <= 0:
                return
            for column in fixed[-_RETREAT * (retreat + 1) :]:
                self._take(column, -1)
            del fixed[-_RETREAT * (retreat + 1) :]

    def _descend(
        self, fixed: list[dict[int, int]], wanted: int, noise: float, random: np.random.Generator
    ) -> bool:
        while sum(self._demands) > _REST:
            if not self._improve(wanted - len(fixed)):
                return False
            self._cover.solve()
            uses = self._cover.uses()
            whole = [(index, int(use + _SLACK)) for index, use in enumerate(uses) if use >= 1 - _SLACK]
            if whole:
                fixed.extend(self._fix(index) for index, times in whole for _ in range(times))
                continue
            order = np.array(uses) * np.exp(noise * random.standard_normal(len(uses)))
            chosen = self._safe_choice(order, wanted - len(fixed) - 1)
            if chosen is None:
                return False
            fixed.append(chosen)
        return True

    def _safe_choice(self, order: npt.NDArray[np.float64], wanted: int) -> dict[int, int] | None:
        for index in np.argsort(-order, kind="stable")[:_CHOICES].tolist():
            if order[index] <= _SLACK:
                break
            column = self._fix(index)
            if self._improve(wanted):
                return column
            self._take(column, -1)
        return None

    def _improve(self, wanted: int) -> bool:
        """Generate columns for the remaining partitions until the linear program needs at most `wanted`
        tasks."""
        for _ in range(300):
            value, duals = self._cover.solve()
            if value <= wanted + _SLACK:
                return True
            if self._rounds <= 0:
                return False
            self._rounds -= 1
            worth, column = self._pricing.best(duals, self._demands)
            if worth <= 1.0 + 1e-7 or not self._add(column):
                return False
        return False

    def _fix(self, index: int) -> dict[int, int]:
        """Use a column for one task, without the partition sizes that are used up."""
        column = {
            kind: min(count, self._demands[kind])
            for kind, count in self._columns[index].items()
            if self._demands[kind]
        }
        self._take(column)
        return column

    def _take(self, column: dict[int, int], times: int = 1) -> None:
        for kind, count in column.items():
            self._demands[kind] -= times * count
            self._cover.set_demand(kind, self._demands[kind])
