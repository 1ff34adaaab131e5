"""Which instance every task of the next plan runs on: who stays, who returns, who was told to move. Pure."""

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
    """`return_delay_ms`: an instance that is back within it gets its former tasks. `imbalance`: how far
    above the mean, for its weight, the load of an instance may be before tasks move for that alone;
    `least_gain`: bytes per second by which the fuller instance must come down then."""

    return_delay_ms: int = 0
    imbalance: float = math.inf
    least_gain: float = 0.0


@dataclass(frozen=True)
class TaskContent:
    """A task before it is placed. `instance`: where it runs now or was told to run."""

    group: GroupName
    partitions: frozenset[TopicPartition]
    bytes_per_second: float
    instance: InstanceName | None = None
    is_pinned: bool = False


def staying(live: Sequence[LiveInstance]) -> tuple[LiveInstance, ...]:
    """Those that may be given tasks; when everybody wants to go, nobody's tasks are moved."""
    return tuple(one for one in live if not one.is_leaving) or tuple(live)


def place_tasks(
    tasks: Mapping[TaskName, TaskContent],
    plan: Plan,
    live: Sequence[LiveInstance],
    rules: TaskPlacementRules,
    now_ms: int,
) -> tuple[TaskPlacement, ...]:
    """The tasks with their instances, by group and name: as the plan store reads them, so that a plan
    does not differ from itself."""
    back = _returning(plan, live, rules, now_ms)
    placed = balance_tasks(
        [
            TaskLoad(name, one.bytes_per_second, back.get(name, one.instance), one.is_pinned)
            for name, one in sorted(tasks.items())
        ],
        staying(live),
        rules.imbalance,
        rules.least_gain,
    )
    in_order = sorted(tasks.items(), key=lambda item: (item[1].group, item[0]))
    return tuple(TaskPlacement(name, one.group, placed[name], one.partitions) for name, one in in_order)


def departures(
    plan: Plan, live: Sequence[LiveInstance], rules: TaskPlacementRules, now_ms: int
) -> dict[InstanceName, Departure]:
    """What the next plan remembers of those that are gone or about to go."""
    here = {one.name for one in staying(live)}
    remembered = {
        name: departure
        for name, departure in plan.departed.items()
        if name not in here and now_ms - departure.left_ms <= rules.return_delay_ms
    }
    for name, placements in plan.by_instance.items():
        if name is not None and name not in here:
            before = remembered[name].tasks if name in remembered else frozenset()
            remembered[name] = Departure(now_ms, before | {placement.task for placement in placements})
    return remembered


def move_to_host(
    tasks: Mapping[TaskName, TaskContent], request: MoveRequest, live: Sequence[LiveInstance]
) -> dict[TaskName, TaskContent]:
    """The partitions go to the task of their group on that instance that has the fewest, or to a new task
    there; partitions that the group does not mirror are left out. Raises InvalidRequest when no such
    instance is here."""
    target = next((one.name for one in staying(live) if request.host in {one.name, one.host}), None)
    if target is None:
        raise InvalidRequest(
            f"no instance is named {request.host}, so nothing of {request.group} moves there",
            advice=f"these are here: {', '.join(sorted(one.name for one in live)) or 'none'}",
        )
    changed = dict(tasks)
    mine = {name: one for name, one in tasks.items() if one.group == request.group}
    there = {name: one for name, one in mine.items() if one.instance == target}
    planned = frozenset[TopicPartition]().union(*(one.partitions for one in mine.values()))
    settled = frozenset[TopicPartition]().union(*(one.partitions for one in there.values()))
    moving = (request.partitions & planned) - settled
    if not moving:
        return changed
    for name, one in mine.items():
        if one.partitions & moving:
            changed[name] = replace(one, partitions=one.partitions - moving)
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
    here = {one.name for one in staying(live)}
    return {
        task: name
        for name, departure in sorted(plan.departed.items())
        if name in here and now_ms - departure.left_ms <= rules.return_delay_ms
        for task in departure.tasks
    }
