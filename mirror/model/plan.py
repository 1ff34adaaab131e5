"""The plan: which task holds which partitions, and which instance runs which task, by epoch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from mirror.errors import PlanRejected
from mirror.model.identifiers import Epoch, GroupName, InstanceName, TaskName
from mirror.model.topics import TopicPartition


@dataclass(frozen=True)
class TaskPlacement:
    """One task: its partitions, and the instance that runs it (None: nobody is there to run it)."""

    task: TaskName
    group: GroupName
    instance: InstanceName | None
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's change of task or instance. None: it was, or will be, nowhere."""

    group: GroupName
    partition: TopicPartition
    from_task: TaskName | None
    to_task: TaskName | None
    from_instance: InstanceName | None
    to_instance: InstanceName | None


@dataclass(frozen=True)
class Plan:
    """All tasks of all datastreams in one epoch. `reason` says in a sentence what changed and why.

    Raises PlanRejected when a task appears twice or a partition has two tasks of one group.
    """

    epoch: Epoch
    tasks: tuple[TaskPlacement, ...]
    created_ms: int
    reason: str

    def __post_init__(self) -> None:
        names = [placement.task for placement in self.tasks]
        if len(set(names)) != len(names):
            raise PlanRejected(f"plan {self.epoch} names a task twice")
        count = sum(len(placement.partitions) for placement in self.tasks)
        if len(self.owners) != count:
            raise PlanRejected(f"plan {self.epoch} gives a partition to two tasks")

    @cached_property
    def by_task(self) -> Mapping[TaskName, TaskPlacement]:
        """Placements by task name."""
        return {placement.task: placement for placement in self.tasks}

    @cached_property
    def owners(self) -> Mapping[tuple[GroupName, TopicPartition], TaskPlacement]:
        """The task that holds each partition of each group."""
        return {
            (placement.group, partition): placement
            for placement in self.tasks
            for partition in placement.partitions
        }

    def of_group(self, group: GroupName) -> tuple[TaskPlacement, ...]:
        """The tasks of one group, in plan order."""
        return tuple(placement for placement in self.tasks if placement.group == group)

    def of_instance(self, instance: InstanceName) -> tuple[TaskPlacement, ...]:
        """The tasks that one instance runs, in plan order."""
        return tuple(placement for placement in self.tasks if placement.instance == instance)


def moves_between(before: Iterable[TaskPlacement], after: Iterable[TaskPlacement]) -> tuple[Move, ...]:
    """Every partition whose task or instance differs, sorted by group and partition."""
    old = _homes(before)
    new = _homes(after)
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
