"""Assigns every task of the next plan to an instance. Pure.

A task stays on its instance, returns to its former instance, or moves on request.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.stores.requests import MoveRequest
from mirror.coordination.task_balancer import TaskLoad, balance_tasks
from mirror.errors import InvalidRequest
from mirror.model.identifiers import GroupName, InstanceName, TaskName, task_name
from mirror.model.plan import Departure, Plan, TaskPlacement
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class TaskPlacementRules:
    """Rules for the assignment of tasks.

    `return_delay_ms`: an instance that returns within this time gets its former tasks back. `imbalance`:
    ratio of the load of an instance to the mean load for its weight, above which tasks are moved to balance
    loads. `least_gain`: minimum load in bytes per second of which such a move relieves the fuller instance.
    """

    return_delay_ms: int = 0
    imbalance: float = math.inf
    least_gain: float = 0.0


@dataclass(frozen=True)
class TaskContent:
    """A task before its assignment.

    `instance`: instance that runs the task now, or that a request names.
    """

    group: GroupName
    partitions: frozenset[TopicPartition]
    bytes_per_second: float
    instance: InstanceName | None = None
    is_pinned: bool = False


def staying(live: Sequence[LiveInstance]) -> tuple[LiveInstance, ...]:
    """Return the live instances that may get tasks."""
    return tuple(instance for instance in live if not instance.is_leaving) or tuple(live)


def place_tasks(
    tasks: Mapping[TaskName, TaskContent],
    plan: Plan,
    live: Sequence[LiveInstance],
    rules: TaskPlacementRules,
    now_ms: int,
) -> tuple[TaskPlacement, ...]:
    """Return the tasks of the next plan with their instances, sorted by group and name.

    The plan store uses the same order, so that equal plans compare equal.
    """
    back = _returning(plan, live, rules, now_ms)
    placed = balance_tasks(
        [
            TaskLoad(name, task.bytes_per_second, back.get(name, task.instance), task.is_pinned)
            for name, task in sorted(tasks.items())
        ],
        staying(live),
        rules.imbalance,
        rules.least_gain,
    )
    in_order = sorted(tasks.items(), key=lambda item: (item[1].group, item[0]))
    return tuple(TaskPlacement(name, task.group, placed[name], task.partitions) for name, task in in_order)


def departures(
    plan: Plan, live: Sequence[LiveInstance], rules: TaskPlacementRules, now_ms: int
) -> dict[InstanceName, Departure]:
    """Return the absent and leaving instances that the next plan must record."""
    here, present = {instance.name for instance in staying(live)}, {instance.name for instance in live}
    remembered = {
        name: departure
        for name, departure in plan.departed.items()
        if name not in here and now_ms - departure.left_ms <= rules.return_delay_ms
    }
    for name, placements in plan.by_instance.items():
        if name is not None and name not in here:
            before = remembered[name].tasks if name in remembered else frozenset()
            tasks = before | {placement.task for placement in placements}
            remembered[name] = Departure(now_ms, tasks, is_lost=name not in present)
    return remembered


def move_to_host(
    tasks: Mapping[TaskName, TaskContent], request: MoveRequest, live: Sequence[LiveInstance]
) -> dict[TaskName, TaskContent]:
    """Move partitions to a task on the requested instance.

    The partitions go to the group's task with the fewest partitions on that instance, or to a new task.
    Partitions that the group does not mirror are ignored. Raises InvalidRequest if no live instance has the
    requested name.
    """
    target = next(
        (instance.name for instance in staying(live) if request.host in {instance.name, instance.host}), None
    )
    if target is None:
        raise InvalidRequest(
            f"cannot move partitions of {request.group}: no live instance {request.host}",
            advice=f"live instances: {', '.join(sorted(instance.name for instance in live)) or 'none'}",
        )
    changed = dict(tasks)
    mine = {name: task for name, task in tasks.items() if task.group == request.group}
    there = {name: placement for name, placement in mine.items() if placement.instance == target}
    planned = frozenset[TopicPartition]().union(*(placement.partitions for placement in mine.values()))
    settled = frozenset[TopicPartition]().union(*(placement.partitions for placement in there.values()))
    moving = (request.partitions & planned) - settled
    if not moving:
        return changed
    for name, placement in mine.items():
        if placement.partitions & moving:
            changed[name] = replace(placement, partitions=placement.partitions - moving)
            if not changed[name].partitions:
                del changed[name]
    if there:
        name = min(there, key=lambda task: (len(there[task].partitions), task))
        changed[name] = replace(there[name], partitions=there[name].partitions | moving, is_pinned=True)
    else:
        number = 0
        while task_name(request.group, number) in tasks:
            number += 1
        changed[task_name(request.group, number)] = TaskContent(request.group, moving, 0.0, target, True)
    return changed


def _returning(
    plan: Plan, live: Sequence[LiveInstance], rules: TaskPlacementRules, now_ms: int
) -> dict[TaskName, InstanceName]:
    here = {instance.name for instance in staying(live)}
    return {
        task: name
        for name, departure in sorted(plan.departed.items())
        if name in here and now_ms - departure.left_ms <= rules.return_delay_ms
        for task in departure.tasks
    }
