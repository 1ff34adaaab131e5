"""Built-in planner without dependencies.

Plans are sticky. Plans balance loads if the loads are known, otherwise partition counts. If the assigner is
installed, its planner (OR-Tools, bounds, proofs) replaces this planner.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import count

from mirror.model.identifiers import GroupName, TaskName, task_name
from mirror.model.load import PartitionLoad
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.wording import counted


class SimplePlanner:
    """Planner that derives the number of tasks from load and usable capacity.

    The planner assigns partitions in descending order of load, each to the task with the least load.
    """

    def plan(self, request: PlanningRequest) -> GroupPlan:
        """Return the plan of one group.

        Partitions keep their tasks, unless `full` is set, or a task would be empty in a `rebalance`. Among
        tasks with equal load, the task with fewer partitions is chosen.

        Tasks exceed the partition limit only if `max_tasks` makes it unavoidable.
        """
        required = self.required_tasks(request)
        tasks: dict[TaskName, list[TopicPartition]] = {name: [] for name in self._names(request, required)}
        most = _most_partitions(request, len(tasks))
        unplaced = []
        for partition in sorted(set(request.partitions), key=lambda key: (-_load(request.loads, key), key)):
            home = request.current.get(partition)
            if request.full or home not in tasks or len(tasks[home]) >= most:
                unplaced.append(partition)
            else:
                tasks[home].append(partition)
        loads = {name: _sum(request.loads, held) for name, held in tasks.items()}
        lightest = [(loads[name], len(held), name) for name, held in tasks.items() if len(held) < most]
        heapq.heapify(lightest)
        for partition in unplaced:
            _, _, name = lightest[0]
            tasks[name].append(partition)
            loads[name] += _load(request.loads, partition)
            if len(tasks[name]) < most:
                heapq.heapreplace(lightest, (loads[name], len(tasks[name]), name))
            else:
                heapq.heappop(lightest)
        if request.rebalance and not request.full and not all(tasks.values()):
            _level(tasks, request.loads)
            loads = {name: _sum(request.loads, held) for name, held in tasks.items()}
        return GroupPlan(
            tasks={name: frozenset(held) for name, held in tasks.items()},
            loads_bytes_per_second=loads,
            required_tasks=required,
            reasons=(f"{counted(required, 'task')} for {counted(len(request.partitions), 'partition')}",),
            move_reasons=_move_reasons(request, tasks, most),
        )

    def required_tasks(self, request: PlanningRequest) -> int:
        """Return the number of tasks required by the load, the partition limit and the minimum task count.

        Never more than the number of partitions.
        """
        usable = request.capacity.usable_bytes_per_second
        by_load = math.ceil(_sum(request.loads, request.partitions) / usable)
        cap = request.limits.max_partitions_per_task
        by_count = math.ceil(len(request.partitions) / cap) if cap else 1
        wanted = max(request.limits.min_tasks, by_load, by_count)
        return min(wanted, max(len(request.partitions), 1))

    def _names(self, request: PlanningRequest, required: int) -> list[TaskName]:
        existing = sorted(set(request.current.values()))
        wanted = max(required, 0 if request.full else len(existing))
        if request.limits.max_tasks is not None:
            wanted = min(wanted, request.limits.max_tasks)
        names = existing[:wanted]
        taken = set(names)
        for number in count():
            if len(names) >= wanted:
                break
            name = task_name(GroupName(request.group), number)
            if name not in taken:
                names.append(name)
        return names


def _move_reasons(
    request: PlanningRequest, tasks: Mapping[TaskName, list[TopicPartition]], most: int
) -> dict[TopicPartition, str]:
    """Map each moved partition to the reason why it leaves its task."""
    sizes = Counter(
        request.current[partition] for partition in request.partitions if partition in request.current
    )

    def reason(home: TaskName) -> str:
        if request.full:
            return "a full plan places everything from scratch"
        if home not in tasks:
            return "its task is removed"
        if sizes[home] > most:
            return "its task has more partitions than allowed"
        return "a task would have no partition: partitions are shared out by count"

    now = {partition: name for name, held in tasks.items() for partition in held}
    changed = (
        partition
        for partition, home in request.current.items()
        if partition in now and now[partition] != home
    )
    return {partition: reason(request.current[partition]) for partition in changed}


def _level(
    tasks: Mapping[TaskName, list[TopicPartition]], loads: Mapping[TopicPartition, PartitionLoad]
) -> None:
    """Move partitions between tasks until the partition counts differ by at most one. Each step moves the
    heaviest partition of the task with the most partitions."""
    while True:
        few, most = (chosen(tasks, key=lambda name: (len(tasks[name]), name)) for chosen in (min, max))
        if len(tasks[most]) - len(tasks[few]) < 2:
            return
        heaviest = max(tasks[most], key=lambda task: (_load(loads, task), task))
        tasks[most].remove(heaviest)
        tasks[few].append(heaviest)


def _most_partitions(request: PlanningRequest, tasks: int) -> int:
    """Return the partition limit of a task: the configured one, or more if that fits all partitions."""
    wanted = len(request.partitions)
    return max(request.limits.max_partitions_per_task or wanted, math.ceil(wanted / tasks))


def _load(loads: Mapping[TopicPartition, PartitionLoad], partition: TopicPartition) -> float:
    load = loads.get(partition)
    return load.bytes_per_second if load else 0.0


def _sum(loads: Mapping[TopicPartition, PartitionLoad], partitions: Iterable[TopicPartition]) -> float:
    return sum(_load(loads, partition) for partition in partitions)
