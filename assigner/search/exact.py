"""Calls the OR-Tools solvers. No other module imports OR-Tools.

For small cases, CP-SAT decides whether a number of tasks suffices, and finds the lowest maximum and the
fewest moved bytes. CP-SAT runs with one worker, a fixed seed and a limit in deterministic time, so that equal
input gives equal results. There is also a wall-clock limit. If that limit ends a search, another run may give
another result, and the plan reports the number of such searches (`counted_cuts`). The better of the solver's
result and the caller's incumbent is returned. GLOP solves the master problem of column generation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]
from ortools.sat.python import cp_model

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, TaskOf, moved_units

_WALL_SECONDS: Final = 60.0
_LARGEST_SUM: Final = 2**55
_COARSE_BYTES: Final = 1_000_000
"""Total weight of all bytes in objectives in which bytes only break ties."""


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Result of a solver run. `task_of`: None if the solver found no better solution than the incumbent.

    `proved`: no better solution exists. `bound`: bound of the objective in units (0 without an objective).
    `work`: deterministic time.
    """

    task_of: TaskOf | None
    proved: bool
    bound: int = 0
    work: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedBytes:
    """Limits of a solver run: moved units, deterministic seconds (`effort`), and the random seed."""

    units: int
    effort: float
    seed: int


_CUTS: Final[ContextVar[list[float] | None]] = ContextVar("cuts", default=None)


@contextmanager
def counted_cuts() -> Iterator[list[float]]:
    """Collect the durations (seconds) of solver runs in the block that the wall-clock limit ended. After such
    a run, equal input may give another result."""
    cuts: list[float] = []
    token = _CUTS.set(cuts)
    try:
        yield cuts
    finally:
        _CUTS.reset(token)


def fits(sizes: Ints, tasks: int, rooms: Ints, limits: Limits, effort: float, seed: int) -> SolverAnswer:
    """Check with the solver whether all partitions fit into `tasks` equal tasks. `proved` without `task_of`:
    they do not fit. `sizes`: int64[n, D]. `rooms`: int64[D]."""
    model = _Model(sizes, tasks, np.broadcast_to(rooms, (tasks, sizes.shape[1])), limits)
    model.break_symmetry()
    return model.solve(effort, seed)


def lowest_maximum(
    sizes: Ints, incumbent: TaskOf, tasks: int, limits: Limits, effort: float, seed: int
) -> SolverAnswer:
    """Return the placement on `tasks` tasks whose fullest task has the lowest load.

    One dimension; sizes int64[n].
    """
    highest = _highest(sizes, incumbent)
    scale = _common_divisor(sizes[:, None], np.array([[highest]]))
    model = _Model(sizes[:, None], tasks, np.full((tasks, 1), highest), limits)
    model.break_symmetry()
    maximum = model.solver_model.new_int_var(0, highest // scale, "maximum")
    for task in range(tasks):
        model.solver_model.add(model.load(task, 0) <= maximum)
    model.solver_model.minimize(maximum)
    model.hint(incumbent)
    answer = model.solve(effort, seed, scale)
    if answer.task_of is not None and _highest(sizes, answer.task_of) >= highest:
        return replace(answer, task_of=None)
    return answer


def fewest_moved(
    sizes: Ints, home: TaskOf, incumbent: TaskOf | None, rooms: Ints, limits: Limits, effort: float, seed: int
) -> SolverAnswer:
    """Return the placement within `rooms` (int64[m, D]) that moves the fewest bytes away from `home`.

    New partitions (home -1) cost nothing. Bytes are the first dimension of `sizes`. `incumbent`: a placement
    within the rooms, or None.
    """
    tasks = len(rooms)
    cost = np.where(home >= 0, sizes[:, 0], 0)
    scale = _common_divisor(sizes, rooms)
    model = _Model(sizes, tasks, rooms, limits)
    staying = [
        (int(cost[rank]) // scale, model.cell(rank, int(home[rank])))
        for rank in range(len(sizes))
        if home[rank] >= 0 and cost[rank]
    ]
    total = int(cost.sum()) // scale
    model.solver_model.minimize(total - sum(weight * cell for weight, cell in staying))
    model.hint(home if incumbent is None else incumbent)
    answer = model.solve(effort, seed, scale, linear=2)
    if answer.task_of is None or incumbent is None:
        return answer
    if moved_units(sizes, home, answer.task_of) >= moved_units(sizes, home, incumbent):
        return replace(answer, task_of=None)
    return answer


def fewest_moves(
    sizes: Ints, home: TaskOf, incumbent: TaskOf, rooms: Ints, limits: Limits, most: MovedBytes
) -> SolverAnswer:
    """Return the placement within `rooms` (int64[m, D]) that moves the fewest partitions away from `home`.

    Among placements with equally few moves, prefer those that move approximately the fewest bytes. New
    partitions (home -1) cost nothing. `incumbent`: a placement within `rooms` that moves at most the allowed
    bytes. `bound` is not set.
    """
    tasks = len(rooms)
    model = _Model(sizes, tasks, rooms, limits)
    placed = np.flatnonzero(home >= 0).tolist()
    staying = [model.cell(rank, int(home[rank])) for rank in placed]
    units = [int(sizes[rank, 0]) for rank in placed]
    scale = max(1, sum(units) // _COARSE_BYTES)
    builder = model.solver_model
    shared = _common_divisor(sizes, rooms)
    weights = [-(-unit // shared) for unit in units]
    stays = cp_model.LinearExpr.weighted_sum(staying, weights)
    builder.add(stays >= sum(weights) - most.units // shared)
    coarse = [1 + (unit // scale) for unit in units]
    one_move = sum(coarse) + 1
    builder.maximize(cp_model.LinearExpr.weighted_sum(staying, [one_move + unit for unit in coarse]))
    model.hint(incumbent)
    answer = replace(model.solve(most.effort, most.seed), bound=0)
    if answer.task_of is None:
        return answer
    moves, before = (int(((home >= 0) & (found != home)).sum()) for found in (answer.task_of, incumbent))
    return answer if moves < before else replace(answer, task_of=None)


def fewest_moved_of_heavy(
    sizes: Ints,
    home: TaskOf,
    rooms: Ints,
    heavy: int,
    staying: Mapping[int, Sequence[tuple[int, int]]],
    effort: float,
    seed: int,
) -> SolverAnswer:
    """Return the placement that moves the fewest bytes, exact only for the first `heavy` partitions.

    The other, small partitions count as divisible load. One dimension, sizes int64[n] by rank, rooms
    int64[m]. Any amount of a task's own small partitions may stay, or only amounts within the ranges (first
    to last, in units) of `staying`. If the ranges contain the sums of all subsets, the bound holds for every
    placement. `task_of`: tasks of heavy partitions as placed. Small partitions stay in their tasks, which may
    then exceed their room.
    """
    is_held = home >= 0
    small = np.zeros(len(rooms), np.int64)
    np.add.at(small, home[heavy:][is_held[heavy:]], sizes[heavy:][is_held[heavy:]])
    model = _Model(sizes[:heavy, None], len(rooms), rooms[:, None], UNLIMITED, scale=1)
    builder = model.solver_model
    ranges = [staying.get(task, [(0, amount)]) for task, amount in enumerate(small.tolist())]
    stays = [
        builder.new_int_var_from_domain(
            cp_model.Domain.from_intervals([list(interval) for interval in allowed]), ""
        )
        for allowed in ranges
    ]
    comes = [builder.new_int_var(0, room, "") for room in rooms.tolist()]
    for task, room in enumerate(rooms.tolist()):
        builder.add(cp_model.LinearExpr.sum([model.load(task, 0), stays[task], comes[task]]) <= room)
    builder.add(cp_model.LinearExpr.sum([*stays, *comes]) >= int(sizes[heavy:].sum()))
    held = np.flatnonzero(is_held[:heavy]).tolist()
    kept = [int(sizes[rank]) * model.cell(rank, int(home[rank])) for rank in held]
    builder.minimize(int(sizes[is_held].sum()) - sum(kept) - sum(stays))
    # No start is given and much is linearized: this proves optimality fastest (`bench placement_moves`).
    answer = model.solve(effort, seed, linear=2)
    if answer.task_of is None:
        return answer
    return replace(answer, task_of=np.concatenate((answer.task_of, home[heavy:])))


def _highest(sizes: Ints, task_of: TaskOf) -> int:
    loads = np.zeros(int(task_of.max()) + 1, np.int64)
    np.add.at(loads, task_of, sizes)
    return int(loads.max())


def _common_divisor(sizes: Ints, rooms: Ints) -> int:
    """Return the greatest common divisor of all sizes.

    Rounding rooms down to a multiple of it excludes no placement.
    """
    shared = int(np.gcd.reduce(sizes[sizes > 0], initial=0)) or 1
    while int(sizes.sum()) // shared > _LARGEST_SUM or int(rooms.max()) // shared > _LARGEST_SUM:
        shared *= 2
    return shared


class _Model:
    """Solver model with Boolean variables x[partition, task]. Every partition has one task, and no task
    exceeds its room and limits."""

    def __init__(self, sizes: Ints, tasks: int, rooms: Ints, limits: Limits, scale: int = 0) -> None:
        self.solver_model = cp_model.CpModel()
        self._count, self._tasks = len(sizes), tasks
        scale = scale or _common_divisor(sizes, rooms)
        self._sizes = -(-sizes // scale)
        self._cells = [
            [self.solver_model.new_bool_var(f"x{rank},{task}") for task in range(tasks)]
            for rank in range(self._count)
        ]
        for row in self._cells:
            self.solver_model.add_exactly_one(row)
        for task in range(tasks):
            for dimension in range(sizes.shape[1]):
                self.solver_model.add(self.load(task, dimension) <= int(rooms[task, dimension]) // scale)
            if limits.is_bounded:
                most = limits.most(self._count)
                self.solver_model.add(sum(row[task] for row in self._cells) <= most)

    def cell(self, rank: int, task: int) -> cp_model.IntVar:
        """Return the variable that is true if the partition is in the task."""
        return self._cells[rank][task]

    def load(self, task: int, dimension: int) -> cp_model.LinearExprT:
        """Return the load of a task as an expression of the model."""
        weights = self._sizes[:, dimension].tolist()
        return cp_model.LinearExpr.weighted_sum([row[task] for row in self._cells], weights)

    def break_symmetry(self) -> None:
        """Restrict partition i to the first i + 1 tasks, because equal tasks are interchangeable."""
        for rank in range(min(self._count, self._tasks)):
            for task in range(rank + 1, self._tasks):
                self.solver_model.add(self._cells[rank][task] == 0)

    def hint(self, task_of: TaskOf) -> None:
        """Start the search of the solver at the given placement."""
        for rank, home in enumerate(task_of.tolist()):
            for task, cell in enumerate(self._cells[rank]):
                self.solver_model.add_hint(cell, int(task == home))

    def solve(self, effort: float, seed: int, scale: int = 1, linear: int = 1) -> SolverAnswer:
        """Run the solver and return its result. `linear`: level of linearization, 0 to 2."""
        solver = _solver(effort, seed, linear)
        status = solver.solve(self.solver_model)
        if solver.wall_time >= _WALL_SECONDS and (cuts := _CUTS.get()) is not None:
            cuts.append(solver.wall_time)
        answer = SolverAnswer(
            None, proved=status in (cp_model.INFEASIBLE, cp_model.OPTIMAL), work=solver.deterministic_time
        )
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return answer
        chosen = [
            next(task for task, cell in enumerate(row) if solver.boolean_value(cell)) for row in self._cells
        ]
        has_objective = self.solver_model.has_objective()
        bound = int(np.ceil(solver.best_objective_bound - 1e-6)) * scale if has_objective else 0
        return replace(answer, task_of=np.array(chosen, np.int32), bound=bound)


class CoverProgram:
    """Linear program of column generation: the fewest columns that cover every demand (GLOP, warm start)."""

    def __init__(self, demands: Sequence[int]) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        infinity = self._solver.infinity()
        self._rows = [self._solver.Constraint(float(demand), infinity) for demand in demands]
        self._columns: list[pywraplp.Variable] = []
        self._solver.Objective().SetMinimization()

    def add_column(self, counts: dict[int, int]) -> None:
        """Add a column that covers row i `counts[i]` times."""
        column = self._solver.NumVar(0.0, self._solver.infinity(), "")
        self._solver.Objective().SetCoefficient(column, 1.0)
        for row, count in counts.items():
            self._rows[row].SetCoefficient(column, float(count))
        self._columns.append(column)

    def set_demand(self, row: int, demand: int) -> None:
        """Change the number of times that a row must be covered."""
        self._rows[row].SetLb(float(demand))

    def solve(self) -> tuple[float, list[float]]:
        """Solve the linear program, and return the number of columns and the dual value of each row."""
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            return float("inf"), []
        return self._solver.Objective().Value(), [row.dual_value() for row in self._rows]

    def uses(self) -> list[float]:
        """Return how often the last solution uses each column."""
        return [column.solution_value() for column in self._columns]


@dataclass(frozen=True, slots=True)
class PackingColumn:
    """A column of a linear program. `cost`: units for each use. `entries`: coefficient in each row. `most`:
    maximum uses."""

    cost: int
    entries: Mapping[int, int]
    most: int


class RowProgram:
    """Linear program to which the caller adds columns between solutions.

    The program minimizes the cost of the used columns subject to the limits of the rows (GLOP, warm start).
    """

    def __init__(self, lows: Sequence[float], highs: Sequence[float]) -> None:
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._rows = [self._solver.Constraint(low, high) for low, high in zip(lows, highs, strict=True)]
        self._solver.Objective().SetMinimization()
        self.columns: list[PackingColumn] = []
        self.lows, self.highs = lows, highs

    def add(self, column: PackingColumn) -> int:
        """Add a column and return its number."""
        variable = self._solver.NumVar(0.0, float(column.most), "")
        self._solver.Objective().SetCoefficient(variable, float(column.cost))
        for row, entry in column.entries.items():
            self._rows[row].SetCoefficient(variable, float(entry))
        self.columns.append(column)
        return len(self.columns) - 1

    def solve(self) -> tuple[float, npt.NDArray[np.float64] | None]:
        """Solve the linear program, and return its cost and the price of each row; None if no solution was
        found."""
        if self._solver.Solve() != pywraplp.Solver.OPTIMAL:
            return float("inf"), None
        return self._solver.Objective().Value(), np.array([row.dual_value() for row in self._rows])


def cheapest_whole(
    program: RowProgram, hint: Mapping[int, int], effort: float, seed: int
) -> tuple[list[int] | None, float]:
    """Return whole numbers of uses for the columns at the lowest cost found, and the effort spent.

    None means that no solution was found.
    """
    model = cp_model.CpModel()
    uses = [model.new_int_var(0, column.most, "") for column in program.columns]
    rows: list[list[tuple[cp_model.IntVar, int]]] = [[] for _ in program.lows]
    for use, column in zip(uses, program.columns, strict=True):
        for row, entry in column.entries.items():
            rows[row].append((use, entry))
    largest = 2**40
    for terms, low, high in zip(rows, program.lows, program.highs, strict=True):
        if not terms:
            continue
        found = cp_model.LinearExpr.weighted_sum([use for use, _ in terms], [entry for _, entry in terms])
        bottom = -largest if low == -np.inf else int(low)
        model.add_linear_constraint(found, bottom, largest if high == np.inf else int(high))
    shared = math.gcd(*(column.cost for column in program.columns)) or 1
    costs = [column.cost // shared for column in program.columns]
    model.minimize(cp_model.LinearExpr.weighted_sum(uses, costs))
    if hint:
        for number, use in enumerate(uses):
            model.add_hint(use, hint.get(number, 0))
    solver = _solver(effort, seed, 2)
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None, solver.deterministic_time
    return [solver.value(use) for use in uses], solver.deterministic_time


def _solver(effort: float, seed: int, linear: int) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.linearization_level = linear
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = _WALL_SECONDS
    return solver
