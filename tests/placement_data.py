"""Small problems for the assigner's tests: loads from plain numbers, and solutions by exhaustive search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from assigner.problem.loads import PartitionLoads
from assigner.problem.problem import Ints, PlacementProblem, TaskOf, build_problem
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition


def loads_of(
    rates: Sequence[float], messages: Sequence[float] | None = None, levels: Sequence[int] | None = None
) -> PartitionLoads:
    """Return partitions t-0, t-1, … with these bytes (and messages) per second."""
    count = len(rates)
    columns = np.zeros((count, 2))
    columns[:, 0] = rates
    if messages is not None:
        columns[:, 1] = messages
    names = tuple(TopicPartition("t", number) for number in range(count))
    return PartitionLoads(names, columns, np.array(levels or [0] * count, np.int8))


def tasks_of(numbers: Sequence[int]) -> TaskOf:
    """Return a placement in the format of the planner."""
    return np.array(numbers, np.int32)


def sizes_of(values: Sequence[int]) -> Ints:
    """Return sizes as int64[n, 1], the format of the stages."""
    return np.array(values, np.int64).reshape(-1, 1)


def a_problem(
    rates: Sequence[float],
    usable: int,
    home: Sequence[int] | None = None,
    limits: TaskLimits | None = None,
    messages: tuple[Sequence[float], int] | None = None,
) -> PlacementProblem:
    """Return a problem with the whole capacity usable."""
    capacity = TaskCapacity(usable, messages[1] if messages else None, 100)
    current = None if home is None else tasks_of(home)
    return build_problem(
        loads_of(rates, messages[0] if messages else None), capacity, limits or TaskLimits(), current
    )


def fewest_tasks_by_exhaustion(sizes: Sequence[float], room: float, cap: int | None = None) -> int:
    """Return the lowest number of tasks over all placements in which every task fits."""
    heaviest_first = sorted(sizes, reverse=True)
    best = len(sizes)

    def place(index: int, loads: list[float], counts: list[int]) -> None:
        nonlocal best
        if len(loads) >= best:
            return
        if index == len(heaviest_first):
            best = len(loads)
            return
        size = heaviest_first[index]
        for task in range(len(loads)):
            if loads[task] + size <= room and (cap is None or counts[task] < cap):
                loads[task] += size
                counts[task] += 1
                place(index + 1, loads, counts)
                loads[task] -= size
                counts[task] -= 1
        place(index + 1, [*loads, size], [*counts, 1])

    place(0, [], [])
    return best


def lowest_maximum_by_exhaustion(sizes: Sequence[float], tasks: int, cap: int | None = None) -> float:
    """Return the lowest maximum load of a task over all placements."""
    heaviest_first = sorted(sizes, reverse=True)
    best = float("inf")

    def place(index: int, loads: list[float], counts: list[int]) -> None:
        nonlocal best
        if max(loads) >= best:
            return
        if index == len(heaviest_first):
            best = max(loads)
            return
        seen = set()
        for task in range(tasks):
            if (cap is None or counts[task] < cap) and (loads[task], counts[task]) not in seen:
                seen.add((loads[task], counts[task]))
                loads[task] += heaviest_first[index]
                counts[task] += 1
                place(index + 1, loads, counts)
                loads[task] -= heaviest_first[index]
                counts[task] -= 1

    place(0, [0.0] * tasks, [0] * tasks)
    return best


def fewest_moved_by_exhaustion(
    sizes: Sequence[float], home: Sequence[int], tasks: int, room: float, cap: int | None = None
) -> float:
    """Return the fewest bytes moved over all placements that fit; inf if there is none."""
    best = float("inf")

    def place(index: int, loads: list[float], counts: list[int], moved: float) -> None:
        nonlocal best
        if moved >= best:
            return
        if index == len(sizes):
            best = moved
            return
        for task in range(tasks):
            if loads[task] + sizes[index] <= room and (cap is None or counts[task] < cap):
                loads[task] += sizes[index]
                counts[task] += 1
                cost = sizes[index] if home[index] not in (-1, task) else 0.0
                place(index + 1, loads, counts, moved + cost)
                loads[task] -= sizes[index]
                counts[task] -= 1

    place(0, [0.0] * tasks, [0] * tasks, 0.0)
    return best
