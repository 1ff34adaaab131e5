"""Assigns tasks to instances by task load and instance weight. Sticky. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from mirror.model.identifiers import InstanceName, TaskName

_LEAST_GAIN: Final = 0.01
"""Minimum gain of an exchange of two tasks, as a share of the load of the fuller instance."""

_MOST_STEPS: Final = 500
_MOST_COMPARED: Final = 40
"""Maximum number of tasks of an instance that are considered for an exchange, to limit the computing time."""


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """A task to assign to an instance.

    `instance`: instance that runs the task now, or None. `is_pinned`: the task stays on its instance while
    the instance is live.
    """

    task: TaskName
    bytes_per_second: float
    instance: InstanceName | None
    is_pinned: bool = False


class WeightedInstance(Protocol):
    """A live instance, or a hypothetical host, that can get tasks."""

    @property
    def name(self) -> str:
        """Name of the instance or host, unique among the candidates."""

    @property
    def weight(self) -> float:
        """Relative capacity of the instance or host, above 0."""


def balance_tasks(
    tasks: Sequence[TaskLoad],
    instances: Sequence[WeightedInstance],
    imbalance: float = math.inf,
    least_gain: float = 0.0,
) -> dict[TaskName, InstanceName | None]:
    """Assign every task to an instance, or to None if there are no instances.

    The share of an instance is the number of tasks, times its weight, divided by the total weight. A task
    stays on its instance, except if the instance has left, if it has more than its share (rounded up), or if
    another instance would have less than its share (rounded down). If tasks must leave an instance, the
    lightest move. Unassigned tasks are assigned in descending order of load, each to the instance with the
    least load for its weight.

    Finally, while the load of the fullest instance exceeds `imbalance` times the mean load for its weight,
    one of its tasks moves to the emptiest instance, alone or in exchange for another task. Each move must
    reduce the load of the fullest instance by at least `least_gain` bytes per second. Ties are broken by
    name, so that equal input gives equal output.
    """
    if not instances:
        return {task.task: None for task in tasks}
    bins = {
        InstanceName(instance.name): _Bin(InstanceName(instance.name), instance.weight)
        for instance in instances
    }
    unplaced = []
    for task in tasks:
        if task.instance in bins:
            bins[task.instance].take(task)
        else:
            unplaced.append(task)
    shares = _shares(len(tasks), instances)
    for bin_ in bins.values():
        surplus = len(bin_.tasks) - math.ceil(shares[bin_.name])
        if surplus > 0:
            unplaced += bin_.give_lightest(surplus)
    _place(unplaced, list(bins.values()), shares)
    _fill_up(list(bins.values()), shares)
    _level(list(bins.values()), shares, imbalance, least_gain)
    return {task.task: bin_.name for bin_ in bins.values() for task in bin_.tasks.values()}


class _Bin:
    """An instance, and the tasks assigned to it so far."""

    def __init__(self, name: InstanceName, weight: float) -> None:
        self.name = name
        self.weight = weight
        self.load = 0.0
        self.tasks: dict[TaskName, TaskLoad] = {}

    def fullness(self) -> tuple[float, float, str]:
        return self.load / self.weight, len(self.tasks) / self.weight, self.name

    def lightest(self) -> TaskLoad | None:
        movable = (task for task in self.tasks.values() if not task.is_pinned)
        return min(movable, key=lambda task: (task.bytes_per_second, task.task), default=None)

    def give_lightest(self, count: int) -> list[TaskLoad]:
        """Remove and return at most `count` of the lightest tasks that are not pinned."""
        movable = [task for task in self.tasks.values() if not task.is_pinned]
        given = sorted(movable, key=lambda task: (task.bytes_per_second, task.task))[:count]
        for task in given:
            del self.tasks[task.task]
        self.load = math.fsum(task.bytes_per_second for task in self.tasks.values())
        return given

    def take(self, task: TaskLoad) -> None:
        self.tasks[task.task] = task
        self.load += task.bytes_per_second

    def give(self, task: TaskLoad) -> None:
        del self.tasks[task.task]
        self.load = math.fsum(task.bytes_per_second for task in self.tasks.values())


def _shares(tasks: int, instances: Sequence[WeightedInstance]) -> Mapping[InstanceName, float]:
    total = sum(instance.weight for instance in instances)
    return {InstanceName(instance.name): tasks * instance.weight / total for instance in instances}


def _place(unplaced: list[TaskLoad], bins: list[_Bin], shares: Mapping[InstanceName, float]) -> None:
    """Assign the tasks without an instance.

    The last tasks are reserved for instances below their share, so that assigned tasks need not move.
    """
    missing = sum(max(0, math.floor(shares[bin_.name]) - len(bin_.tasks)) for bin_ in bins)
    in_order = sorted(unplaced, key=lambda task: (-task.bytes_per_second, task.task))
    for left, task in zip(range(len(in_order), 0, -1), in_order, strict=True):
        most = math.floor if left <= missing else math.ceil
        open_bins = [bin_ for bin_ in bins if len(bin_.tasks) < most(shares[bin_.name])]
        bin_ = min(open_bins or bins, key=_Bin.fullness)
        missing -= len(bin_.tasks) < math.floor(shares[bin_.name])
        bin_.take(task)


def _fill_up(bins: list[_Bin], shares: Mapping[InstanceName, float]) -> None:
    """Move tasks to instances below their share, from the instances that exceed their share the most."""
    while True:
        poor = min(bins, key=lambda bin_: (len(bin_.tasks) - math.floor(shares[bin_.name]), bin_.name))
        able = [bin_ for bin_ in bins if len(bin_.tasks) > math.floor(shares[bin_.name]) and bin_.lightest()]
        if len(poor.tasks) >= math.floor(shares[poor.name]) or not able:
            return
        rich = max(able, key=lambda bin_: (len(bin_.tasks) - math.floor(shares[bin_.name]), bin_.name))
        task = rich.lightest()
        assert task is not None
        rich.give(task)
        poor.take(task)


def _level(
    bins: list[_Bin], shares: Mapping[InstanceName, float], imbalance: float, least_gain: float
) -> None:
    """Move tasks between instances to balance loads. Each step relieves the more loaded of two instances, so
    no step is undone. There are at most `_MOST_STEPS` steps, and one per task."""
    mean = sum(bin_.load for bin_ in bins) / sum(bin_.weight for bin_ in bins)
    for _ in range(min(_MOST_STEPS, sum(len(bin_.tasks) for bin_ in bins))):
        full, empty = max(bins, key=_Bin.fullness), min(bins, key=_Bin.fullness)
        if full.load / full.weight <= imbalance * mean:
            return
        may_give = len(full.tasks) > math.floor(shares[full.name]) and len(empty.tasks) < math.ceil(
            shares[empty.name]
        )
        gain = max(_LEAST_GAIN * full.load, least_gain)
        step = _best_step(full, empty, may_give, gain)
        if step is None:
            return
        given, taken = step
        full.give(given)
        empty.take(given)
        if taken is not None:
            empty.give(taken)
            full.take(taken)


def _best_step(
    full: _Bin, empty: _Bin, may_give: bool, gain: float
) -> tuple[TaskLoad, TaskLoad | None] | None:
    """Return the task to move from `full` to `empty`, and the task to move back or None. The choice minimises
    the higher of the two relative loads. Returns None if no choice relieves `full` by more than `gain`."""
    best, best_level = None, (full.load - gain) / full.weight
    back: list[TaskLoad | None] = list(_movable(empty))
    for given in _movable(full):
        for taken in [None, *back] if may_give else back:
            shift = given.bytes_per_second - (taken.bytes_per_second if taken else 0.0)
            level = max((full.load - shift) / full.weight, (empty.load + shift) / empty.weight)
            if level < best_level:
                best, best_level = (given, taken), level
    return best


def _movable(bin_: _Bin) -> list[TaskLoad]:
    """Return the unpinned tasks of an instance, sorted by name; if too many, a sample across all loads."""
    movable = [task for task in bin_.tasks.values() if not task.is_pinned]
    if len(movable) > _MOST_COMPARED:
        by_load = sorted(movable, key=lambda task: (task.bytes_per_second, task.task))
        movable = by_load[:: math.ceil(len(by_load) / _MOST_COMPARED)]
    return sorted(movable, key=lambda task: task.task)
