"""Which instance runs which task: sticky, by task load and instance weight. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirror.coordination.membership import LiveInstance
from mirror.model.identifiers import InstanceName, TaskName


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """A task to be placed. `home`: the instance that runs it now, if any."""

    task: TaskName
    bytes_per_second: float
    home: InstanceName | None


def spread_tasks(
    tasks: Sequence[TaskLoad], instances: Sequence[LiveInstance]
) -> dict[TaskName, InstanceName | None]:
    """An instance for every task (None where nobody is there).

    A task stays where it is unless its instance is gone, holds more than its share of tasks
    (ceil of tasks * weight / total weight), or another would have less than the floor of its
    share; then the lightest move. Homeless tasks go, heaviest first, to the instance with the least
    load for its weight. Ties go by name, so the same input gives the same answer.
    """
    if not instances:
        return {task.task: None for task in tasks}
    rooms = {instance.name: _Room(instance.name, instance.weight) for instance in instances}
    homeless = []
    for task in tasks:
        if task.home in rooms:
            rooms[task.home].tasks.append(task)
        else:
            homeless.append(task)
    shares = _shares(len(tasks), instances)
    for room in rooms.values():
        while len(room.tasks) > math.ceil(shares[room.name]):
            homeless.append(room.give_up_lightest())
    for task in sorted(homeless, key=lambda task: (-task.bytes_per_second, task.task)):
        open_rooms = [room for room in rooms.values() if len(room.tasks) < math.ceil(shares[room.name])]
        min(open_rooms or rooms.values(), key=_Room.fullness).tasks.append(task)
    _fill_up(list(rooms.values()), shares)
    return {task.task: room.name for room in rooms.values() for task in room.tasks}


class _Room:
    """One instance and the tasks it would run."""

    def __init__(self, name: InstanceName, weight: float) -> None:
        self.name = name
        self.weight = weight
        self.tasks: list[TaskLoad] = []

    def fullness(self) -> tuple[float, float, str]:
        load = sum(task.bytes_per_second for task in self.tasks)
        return load / self.weight, len(self.tasks) / self.weight, self.name

    def give_up_lightest(self) -> TaskLoad:
        lightest = min(self.tasks, key=lambda task: (task.bytes_per_second, task.task))
        self.tasks.remove(lightest)
        return lightest


def _shares(tasks: int, instances: Sequence[LiveInstance]) -> Mapping[InstanceName, float]:
    total = sum(instance.weight for instance in instances)
    return {instance.name: tasks * instance.weight / total for instance in instances}


def _fill_up(rooms: list[_Room], shares: Mapping[InstanceName, float]) -> None:
    """Bring every instance to the floor of its share, taking from the one furthest above its own."""
    while True:
        poor = min(rooms, key=lambda room: (len(room.tasks) - math.floor(shares[room.name]), room.name))
        rich = max(rooms, key=lambda room: (len(room.tasks) - math.floor(shares[room.name]), room.name))
        if len(poor.tasks) >= math.floor(shares[poor.name]) or len(rich.tasks) <= math.floor(
            shares[rich.name]
        ):
            return
        poor.tasks.append(rich.give_up_lightest())
