"""The plan: partitions of each task, and instance of each task. Also requests to planners and results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from mirror.errors import PlanRejected
from mirror.model.bounds import shown
from mirror.model.identifiers import DatastreamName, Epoch, GroupName, InstanceName, TaskName, task_name
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

_NAMES: Final = "tasks are named <group>-<number>, starting at 0"


@dataclass(frozen=True)
class TaskPlacement:
    """A task: its partitions, and the instance that runs it, or None."""

    task: TaskName
    group: GroupName
    instance: InstanceName | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Move:
    """Move of one partition to another task or instance. None means unassigned."""

    group: GroupName
    partition: TopicPartition
    from_task: TaskName | None
    to_task: TaskName | None
    from_instance: InstanceName | None
    to_instance: InstanceName | None


@dataclass(frozen=True)
class Departure:
    """Departure of an instance, with the tasks that it ran. `is_lost`: the instance lost its session."""

    left_ms: int
    tasks: frozenset[TaskName]
    is_lost: bool = False


@dataclass(frozen=True)
class Plan:
    """Assignment of all tasks of all datastreams in one epoch.

    `reason`: sentence about the change and its reason. `departed`: instances that have left or are leaving,
    and their tasks. `excluded`: topics that a datastream must not copy, because another datastream with the
    same tasks copies them (None: all topics).

    Raises PlanRejected if a task appears twice or a partition has two tasks of one group.
    """

    epoch: Epoch
    tasks: tuple[TaskPlacement, ...]
    created_ms: int
    reason: str
    departed: Mapping[InstanceName, Departure] = field(default_factory=dict)
    excluded: Mapping[DatastreamName, frozenset[str] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [placement.task for placement in self.tasks]
        if len(set(names)) != len(names):
            raise PlanRejected(f"plan {self.epoch} contains a task twice")
        count = sum(len(placement.partitions) for placement in self.tasks)
        if len(self.owners) != count:
            raise PlanRejected(f"plan {self.epoch} assigns a partition to two tasks")

    @cached_property
    def by_task(self) -> Mapping[TaskName, TaskPlacement]:
        """Map task names to tasks."""
        return {placement.task: placement for placement in self.tasks}

    @cached_property
    def owners(self) -> Mapping[tuple[GroupName, TopicPartition], TaskPlacement]:
        """Map each partition of each group to its task."""
        return {
            (placement.group, partition): placement
            for placement in self.tasks
            for partition in placement.partitions
        }

    @cached_property
    def by_group(self) -> Mapping[GroupName, tuple[TaskPlacement, ...]]:
        """Tasks of each group, in plan order."""
        return _gathered(self.tasks, lambda placement: placement.group)

    @cached_property
    def by_instance(self) -> Mapping[InstanceName | None, tuple[TaskPlacement, ...]]:
        """Tasks of each instance, in plan order. The key None contains tasks without an instance."""
        return _gathered(self.tasks, lambda placement: placement.instance)

    @cached_property
    def planned(self) -> Mapping[GroupName, frozenset[TopicPartition]]:
        """Map each group to its partitions."""
        return {
            group: frozenset().union(*(placement.partitions for placement in placements))
            for group, placements in self.by_group.items()
        }

    @cached_property
    def task_counts(self) -> Mapping[GroupName, int]:
        """Map each group to its number of tasks."""
        return {group: len(placements) for group, placements in self.by_group.items()}

    def excludes(self, name: DatastreamName, topic: str) -> bool:
        """Return whether another datastream with the same tasks copies the topic, so that this one must
        not."""
        topics = self.excluded.get(name, frozenset())
        return topics is None or topic in topics

    def of_group(self, group: GroupName) -> tuple[TaskPlacement, ...]:
        """Return the tasks of one group, in plan order."""
        return self.by_group.get(group, ())

    def of_instance(self, instance: InstanceName) -> tuple[TaskPlacement, ...]:
        """Return the tasks that one instance runs, in plan order."""
        return self.by_instance.get(instance, ())


_Key = TypeVar("_Key")


def _gathered(
    tasks: Iterable[TaskPlacement], key: Callable[[TaskPlacement], _Key]
) -> dict[_Key, tuple[TaskPlacement, ...]]:
    found: dict[_Key, list[TaskPlacement]] = {}
    for placement in tasks:
        found.setdefault(key(placement), []).append(placement)
    return {name: tuple(placements) for name, placements in found.items()}


def moves_between(before: Iterable[TaskPlacement], after: Iterable[TaskPlacement]) -> tuple[Move, ...]:
    """Return a move for each partition that changes its task or instance, sorted by group and partition."""
    present = {placement.task: placement for placement in before}
    changed = [placement for placement in after if present.get(placement.task) != placement]
    kept = {placement.task for placement in after} - {placement.task for placement in changed}
    old = _homes(placement for task, placement in present.items() if task not in kept)
    new = _homes(changed)
    moves = []
    for key in sorted(old.keys() | new.keys()):
        was, becomes = old.get(key), new.get(key)
        if was == becomes:
            continue
        group, partition = key
        from_task, from_instance = was if was else (None, None)
        to_task, to_instance = becomes if becomes else (None, None)
        moves.append(Move(group, partition, from_task, to_task, from_instance, to_instance))
    return tuple(moves)


_Home = tuple[TaskName, InstanceName | None]


def _homes(tasks: Iterable[TaskPlacement]) -> dict[tuple[GroupName, TopicPartition], _Home]:
    return {
        (placement.group, partition): (placement.task, placement.instance)
        for placement in tasks
        for partition in placement.partitions
    }


@dataclass(frozen=True)
class PlanningRequest:
    """A request to a planner to plan the tasks of one group.

    `current`: task of each partition in the current plan; new partitions have none. `full`: ignore the
    current placement if a better one exists. `rebalance`: move partitions from overloaded tasks and balance
    loads, even if no partition was added or removed. `recent`: loads of earlier observations, oldest first. A
    peak in only the latest observation causes no move and no new task. A task that any observation needs is
    not removed. `calm`: reason why optional moves and the removal of tasks are suspended, or an empty string.
    `scale_in_headroom`: share of each remaining task to keep free when tasks are removed; None for the
    planner's default. `strategy`: name of the chosen placement strategy; None for the default of the service.
    """

    group: GroupName
    partitions: tuple[TopicPartition, ...]
    loads: Mapping[TopicPartition, PartitionLoad]
    capacity: TaskCapacity
    limits: TaskLimits
    current: Mapping[TopicPartition, TaskName]
    full: bool = False
    rebalance: bool = False
    recent: tuple[Mapping[TopicPartition, PartitionLoad], ...] = ()
    scale_in_headroom: float | None = None
    calm: str = ""
    strategy: str | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class PlanFigures:
    """Statistics about a plan and its computation. Rates are in bytes per second.

    `required_tasks`: number of tasks that the loads require, regardless of limits. Lower bounds apply to
    every feasible plan: to its number of tasks, the load of its fullest task, and its moved bytes.
    `moves_left`: moves that exceed the budget of one plan. `cut_short`: searches that reached their time
    limit, so that the same request may give a different plan. `stage`: planning stage that found the plan.
    """

    required_tasks: int
    task_lower_bound: int
    max_load: float
    max_load_lower_bound: float
    moved_lower_bound: float
    moves_left: int
    cut_short: int
    stage: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class GroupPlan:
    """Plan of one group, as returned by a planner: the partitions of each task, and reasons.

    `required_tasks`: number of tasks that the loads require, even if `max_tasks` is lower. `move_reasons`:
    reason for every partition that changes its task. `offending`: partitions whose load alone exceeds the
    usable capacity of a task. `loads_bytes_per_second`: load by task. `task_lower_bound`,
    `max_load_lower_bound_bytes_per_second`, `moved_lower_bound_bytes_per_second`: no feasible plan has fewer
    tasks, has a lower load of the fullest task, or moves less load. `overloaded`: tasks above usable
    capacity. `estimated`, `defaulted`: partitions planned with the load of their topic, or with the default
    load. `moves_left`: moves that exceed the budget of one plan. `stage`: stage that found the plan.
    `cut_short`: searches that reached a time limit, so the same request may produce a different plan.
    """

    tasks: Mapping[TaskName, frozenset[TopicPartition]]
    loads_bytes_per_second: Mapping[TaskName, float]
    required_tasks: int
    reasons: tuple[str, ...] = ()
    move_reasons: Mapping[TopicPartition, str] | None = None
    offending: tuple[TopicPartition, ...] = ()
    unplaced: tuple[TopicPartition, ...] = ()
    task_lower_bound: int = 0
    max_load_lower_bound_bytes_per_second: float = 0.0
    moved_bytes_per_second: float = 0.0
    moved_lower_bound_bytes_per_second: float = 0.0
    overloaded: tuple[TaskName, ...] = ()
    estimated: tuple[TopicPartition, ...] = ()
    defaulted: tuple[TopicPartition, ...] = ()
    moves_left: int = 0
    stage: str = ""
    cut_short: int = 0

    def check(self, request: PlanningRequest) -> None:
        """Check that a planner's result matches the request. Raises PlanRejected. The name of a task starts
        with the name of its group."""
        for task in self.tasks:
            number = task.removeprefix(f"{request.group}-")
            if not (
                number.isascii() and number.isdecimal() and task_name(request.group, int(number)) == task
            ):
                raise PlanRejected(
                    f"{shown(task)} is not a task name of group {request.group}", advice=_NAMES
                )
        given = [partition for partitions in self.tasks.values() for partition in partitions]
        if len(set(given)) != len(given):
            raise PlanRejected(f"a partition of group {request.group} has two tasks")
        if made_up := sorted(set(given) - set(request.partitions)):
            raise PlanRejected(f"{made_up[0]} is not a partition of group {request.group}")
