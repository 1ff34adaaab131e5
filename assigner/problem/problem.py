"""The planner's validated input: partition sizes as integers, heaviest first, and all limits.

Sizes and capacities are integers in thousandths of a byte (or message) per second. Sums therefore do not
depend on the order of summation. Sizes are rounded up, so a placement that fits in the model also fits in
reality. Every stage identifies partitions by rank: rank 0 is the heaviest partition; partitions with equal
load are ordered by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import Limits
from assigner.problem.loads import LEVELS, PartitionLoads
from mirror.errors import InvalidRequest
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition
from mirror.wording import counted

Ints = npt.NDArray[np.int64]
Ranks = npt.NDArray[np.int64]
TaskOf = npt.NDArray[np.int32]
"""Task number of each partition; -1 means no task."""

UNITS: Final = 1000
"""Number of integer units in one byte (or message) per second."""

_HIGHEST_TOTAL: Final = 1e15
LARGEST_ROOM: Final = 2**60
"""Largest room of a task in units. Loads in units, and their differences to a room, fit into int64."""


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """Validated input of the planner. Arrays are in rank order and must not be modified.

    `names`: partitions in the caller's order; `order`: position of each rank in `names`. `sizes`: int64[n, D]
    in units, D = 2 if messages have a capacity, else 1. `usable`: int64[D]. `home`: current task, numbered
    from 0, -1 for a new partition. `homes`: number of current tasks. `recent`: int64[h, n, D]. `measured`:
    share of the partitions whose load is not the default.
    """

    names: tuple[TopicPartition, ...]
    sizes: Ints
    usable: Ints
    home: TaskOf
    homes: int
    limits: TaskLimits
    order: Ranks
    recent: Ints
    measured: float

    @property
    def count(self) -> int:
        """Number of partitions to place."""
        return len(self.order)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Partitions in the order of their ranks."""
        return tuple(self.names[position] for position in self.order.tolist())

    @property
    def dimensions(self) -> int:
        """Number of dimensions: 1 for bytes, 2 for bytes and messages."""
        return int(self.sizes.shape[1])

    @property
    def per_task(self) -> Limits:
        """Limits of a task other than its load."""
        return Limits(self.limits.max_partitions_per_task)

    @property
    def offending(self) -> npt.NDArray[np.bool_]:
        """Mask in rank order: True if the partition alone exceeds the usable capacity of a task."""
        return np.asarray((self.sizes > self.usable).any(axis=1))

    def only(self, ranks: Ranks) -> PlacementProblem:
        """Return the planning problem restricted to the partitions in `ranks` (ascending)."""
        return replace(
            self,
            sizes=self.sizes[ranks],
            home=self.home[ranks],
            order=self.order[ranks],
            recent=self.recent[:, ranks],
        )


def build_problem(
    loads: PartitionLoads, capacity: TaskCapacity, limits: TaskLimits, current: TaskOf | None
) -> PlacementProblem:
    """Validate the planner's input and sort it, so that equal input gives equal results.

    `current`: task number by position in `loads`, -1 for new partitions. Raises InvalidRequest that names the
    invalid value.
    """
    usable = usable_units(capacity)
    dimensions = len(usable)
    order = _ranking(loads, usable)
    home = np.full(len(order), -1, np.int32) if current is None else _checked(current, len(order))[order]
    rates = loads.rates[order, :dimensions]
    history = np.empty((0, len(order), dimensions), np.int64)
    if len(loads.recent):
        history = in_units(loads.recent[:, order, :dimensions])
    return PlacementProblem(
        names=loads.partitions,
        sizes=in_units(rates),
        usable=usable,
        home=home,
        homes=int(home.max(initial=-1)) + 1,
        limits=limits,
        order=order,
        recent=history,
        measured=float((loads.levels != len(LEVELS) - 1).mean()) if len(order) else 1.0,
    )


def in_units(rates: npt.NDArray[np.float64]) -> Ints:
    """Convert rates to integer units, rounded up. Rates with up to three decimal places are converted
    exactly."""
    return np.ceil(np.round(rates * UNITS, 4)).astype(np.int64)


def usable_units(capacity: TaskCapacity) -> Ints:
    """Return the usable capacity of a task in units: int64[D]. Raises InvalidRequest if the capacity is 0."""
    found = [("bytes", capacity.usable_bytes_per_second)]
    if capacity.usable_messages_per_second is not None:
        found.append(("messages", capacity.usable_messages_per_second))
    for unit, value in found:
        if value == 0:
            raise InvalidRequest(
                f"task capacity too small: {capacity.utilisation_percent} % of it is 0 {unit} per second",
                advice="raise the capacity or the utilisation threshold",
            )
    return np.array([min(value * UNITS, LARGEST_ROOM) for _, value in found], dtype=np.int64)


def _ranking(loads: PartitionLoads, usable: Ints) -> Ranks:
    """Return the positions of the partitions in order of rank, heaviest first; ties are ordered by name.

    A partition's weight is the sum of its loads as shares of usable capacity.
    """
    totals = loads.rates.sum(axis=0)
    if totals.max(initial=0.0) > _HIGHEST_TOTAL:
        raise InvalidRequest(
            f"the loads are too large: their sum is {totals.max():.3g} per second", advice="check their unit"
        )
    names = loads.partitions
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    for before, after in zip(by_name[:-1].tolist(), by_name[1:].tolist(), strict=True):
        if names[before] == names[after]:
            raise InvalidRequest(f"partition {names[before]} appears twice")
    sizes = in_units(loads.rates[:, : len(usable)])[by_name]
    weight = sizes[:, 0] if len(usable) == 1 else (sizes / usable).sum(axis=1)
    return by_name[np.argsort(-weight, kind="stable")]


def _checked(current: TaskOf, count: int) -> TaskOf:
    home = np.asarray(current, dtype=np.int32)
    if home.shape != (count,):
        raise InvalidRequest(f"expected current tasks of {counted(count, 'partition')}, got {home.size}")
    if home.min(initial=0) < -1:
        raise InvalidRequest(f"invalid task number {int(home.min())}", advice="write -1 for a new partition")
    return home


def moved_units(sizes: Ints, home: TaskOf, task_of: TaskOf) -> int:
    """Return the load that moves to another task, in units of the first dimension (bytes). New partitions
    (home -1) do not count.

    `sizes`: int64[n, D]. `home`, `task_of`: int32[n].
    """
    return int(sizes[(home >= 0) & (task_of != home), 0].sum())
