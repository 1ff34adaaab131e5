"""The planner's input, validated once: integer sizes, heaviest first, and all limits.

Sizes and capacities are integers in thousandths of a byte (or message) per second. Sums therefore do not
depend on the order of summation. Sizes are rounded up, so a placement that fits in the model also fits in
reality. Every stage identifies partitions by rank: rank 0 is the heaviest partition; partitions with equal
load are ordered by name.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
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
"""Task number by partition; -1: none."""

UNITS: Final = 1000
"""Number of units in one byte (or message) per second."""

_HIGHEST_TOTAL: Final = 1e15
_LARGEST_CAPACITY: Final = 2**60
_LARGEST_SEED: Final = 1_000_000_000
"""Largest seed: the solver accepts seeds of 31 bits, and stages add small numbers to the seed."""


class PlanMode(StrEnum):
    """FULL ignores the current placement; INCREMENTAL keeps partitions in their current tasks where
    possible."""

    FULL = "full"
    INCREMENTAL = "incremental"


@dataclass(frozen=True, slots=True)
class Policy:
    """Parameters of planning; docs/placement/settings.md explains every field.

    `tolerance`: accepted excess of the fullest task over the best possible value in a full plan or rebalance.
    `least_gain`: share of usable capacity by which a rebalance must relieve the fullest task; otherwise the
    rebalance moves nothing. `scale_in_headroom`: share of each remaining task that must stay free when tasks
    are removed. `overload_band`: share above usable capacity up to which an incremental plan without
    `rebalance` does not relieve a task. `settling`: number of observations, including the current one, in
    which a task must have been overloaded or the load must have needed more tasks. `move_slack`: share by
    which an incremental plan may exceed the minimum number of moved bytes to move fewer partitions.
    `move_budget`: share of all bytes that a plan may move; None means no limit. `full_move_cost`: bytes/s of
    capacity that a moved byte/s must free for an incremental plan to become a full one automatically; None:
    only on request. `exact_cells`: largest product (partitions with load times tasks) for which the solver is
    tried on all partitions. `effort`: factor for every step limit. `seed`: seed of random choices.
    `keep_reason`: reason why no task is removed, if the planner and not the datastream set the minimum of
    tasks.
    """

    mode: PlanMode = PlanMode.FULL
    rebalance: bool = False
    tolerance: float = 0.01
    least_gain: float = 0.0
    scale_in_headroom: float = 0.2
    overload_band: float = 0.0
    settling: int = 3
    move_slack: float = 0.0
    move_budget: float | None = None
    full_move_cost: float | None = None
    exact_cells: int = 14_000
    effort: float = 1.0
    seed: int = 1
    keep_reason: str = ""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("tolerance", self.tolerance, 0.0, 1.0),
            ("least_gain", self.least_gain, 0.0, 1.0),
            ("scale_in_headroom", self.scale_in_headroom, 0.0, 0.99),
            ("overload_band", self.overload_band, 0.0, 1.0),
            ("settling", self.settling, 1, float("inf")),
            ("move_slack", self.move_slack, 0.0, 1.0),
            ("move_budget", self.move_budget, 0.0, 1.0),
            ("full_move_cost", self.full_move_cost, 0.0, float("inf")),
            ("exact_cells", self.exact_cells, 0, float("inf")),
            ("effort", self.effort, 0.0, 100.0),
            ("seed", self.seed, 0, _LARGEST_SEED),
        ):
            if value is not None and not low <= value <= high:
                raise InvalidRequest(f"{name} is {value}; it must be between {low} and {high}")


@dataclass(frozen=True, slots=True, eq=False)
class PlacementProblem:
    """The validated input. Arrays are by rank and must not be modified.

    `names`: in the caller's order; `order`: position of each rank in it. `sizes`: int64[n, D] in units, D = 2
    if messages have a capacity, else 1. `usable`: int64[D]. `home`: current task, numbered from 0, -1 for a
    new partition. `homes`: number of current tasks. `recent`: int64[h, n, D]. `measured`: share of the
    partitions whose load is not the default.
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
        """Number of partitions."""
        return len(self.order)

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Names by rank."""
        return tuple(self.names[position] for position in self.order.tolist())

    @property
    def dimensions(self) -> int:
        """Number of dimensions: 1 for bytes, 2 for bytes and messages."""
        return int(self.sizes.shape[1])

    @property
    def per_task(self) -> Limits:
        """Limits of one task other than its load."""
        return Limits(self.limits.max_partitions_per_task)

    @property
    def offending(self) -> npt.NDArray[np.bool_]:
        """Mask by rank: True if the partition alone exceeds usable capacity in some dimension."""
        return np.asarray((self.sizes > self.usable).any(axis=1))

    def only(self, ranks: Ranks) -> PlacementProblem:
        """Return the problem restricted to some of the partitions; `ranks` ascending."""
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
    """Validate the input and sort it, so that equal input gives equal results.

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
    """Convert rates to integer units, rounded up. Decimals with up to three places are converted exactly."""
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
    return np.array([min(value * UNITS, _LARGEST_CAPACITY) for _, value in found], dtype=np.int64)


def _ranking(loads: PartitionLoads, usable: Ints) -> Ranks:
    """Return ranks, heaviest first by the sum of loads as shares of usable capacity; ties by name."""
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
        raise InvalidRequest(f"got {counted(home.size, 'current task')} for {counted(count, 'partition')}")
    if home.min(initial=0) < -1:
        raise InvalidRequest(f"invalid task number {int(home.min())}", advice="write -1 for a new partition")
    return home


def moved_units(sizes: Ints, home: TaskOf, task_of: TaskOf) -> int:
    """Return the load that leaves its task, in units of the first dimension. New partitions (home -1) do not
    count.

    `sizes`: int64[n, D]. `home`, `task_of`: int32[n].
    """
    return int(sizes[(home >= 0) & (task_of != home), 0].sum())
