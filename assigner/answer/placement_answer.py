"""The plan: the tasks, the partitions of each task, and bounds on the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from assigner.problem.loads import PartitionLoads, Rates
from assigner.problem.problem import TaskOf
from mirror.model.plan import PlanFigures


@dataclass(frozen=True, slots=True)
class Gap:
    """Distance of a plan from the proven lower bounds on its tasks, highest load and moves. All 0 means that
    the plan is optimal."""

    tasks: int
    max_load: float
    moved_bytes_per_second: float


@dataclass(frozen=True, slots=True, eq=False)
class PlacementAnswer(PlanFigures):
    """Plan for the tasks of one group. Partitions are in the caller's order; rates are per second.

    `task_of`: int32[n], -1 if a partition is unplaced. Current tasks keep their numbers; new tasks get higher
    numbers. `alive`: bool[T], tasks of the plan. `loads`, `loads_before`: float64[T, 2], bytes and messages.
    `offending`: partitions that alone exceed the usable capacity; `overloaded`: tasks above the usable
    capacity; `estimated`: partitions with the mean load of their topic; `defaulted`: partitions with the
    default load.
    """

    demand: PartitionLoads
    current: TaskOf
    task_of: TaskOf
    alive: npt.NDArray[np.bool_]
    loads: Rates
    loads_before: Rates
    moved_bytes_per_second: float
    offending: tuple[int, ...]
    overloaded: tuple[int, ...]
    estimated: tuple[int, ...]
    defaulted: tuple[int, ...]
    unplaced: tuple[int, ...]
    min_tasks_unmet: bool
    move_causes: npt.NDArray[np.int8]

    @property
    def tasks(self) -> int:
        """Number of tasks of the plan."""
        return int(self.alive.sum())

    @property
    def moves(self) -> npt.NDArray[np.int64]:
        """Positions, in the caller's order, of the partitions that leave their current task."""
        return np.flatnonzero((self.current >= 0) & (self.task_of >= 0) & (self.task_of != self.current))

    @property
    def moved_partitions(self) -> int:
        """Number of partitions that leave their current task."""
        return len(self.moves)

    @property
    def gap(self) -> Gap:
        """Distance of the plan from the proven bounds."""
        lowest = self.max_load_lower_bound
        return Gap(
            self.tasks - self.task_lower_bound,
            self.max_load / lowest - 1 if lowest else 0.0,
            self.moved_bytes_per_second - self.moved_lower_bound,
        )
