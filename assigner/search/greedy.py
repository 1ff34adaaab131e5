"""Places partitions one after the other, heaviest first, onto tasks that may already have load."""

from __future__ import annotations

from bisect import bisect_left, insort
from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, Ranks, TaskOf

_BATCH: Final = 64
_CHUNK: Final = 2_048
_TAIL_SHARE: Final = 10_000
"""Share of the total load below which the lightest partitions together form the tail: 1/10,000."""


def tail_start(sizes: Ints) -> int:
    """Return the rank from which the lightest partitions (the tail) start, which are distributed evenly by
    count.

    `sizes`: int64[n, D], heaviest first. Without a tail, all partitions without load would get the task that
    is lightest by a minimal difference.
    """
    if not len(sizes):
        return 0
    remaining = sizes[::-1].cumsum(axis=0)
    in_tail = (remaining * _TAIL_SHARE <= remaining[-1]).all(axis=1)
    return len(sizes) - int(in_tail.sum() if in_tail.all() else in_tail.argmin())


def level_tail(counts: Ints, tail: int, closed: npt.NDArray[np.bool_], limits: Limits) -> TaskOf:
    """Return a task for each of the `tail` lightest partitions; -1 if no task has room.

    The numbers of partitions per task become as equal as possible. `counts`: int64[m], partitions of each
    task before. `closed`: bool[m], tasks that receive partitions only if no other task can.
    """
    open_tasks = np.flatnonzero(~closed) if not closed.all() else np.arange(len(counts))
    most = _highest_count(counts, tail, limits)
    slots: list[TaskOf] = []
    left = tail
    for tasks in (open_tasks, np.flatnonzero(closed)):
        dealt = _water_fill(counts[tasks], left, most)
        slots.append(_deal(tasks, dealt))
        left -= int(dealt.sum())
    slots.append(np.full(left, -1, np.int32))
    return np.concatenate(slots)[:tail]


def _highest_count(counts: Ints, partitions: int, limits: Limits) -> int:
    """Return the highest number of partitions in a task after the lightest ones are distributed."""
    return limits.most(int(counts.max(initial=0)) + partitions)


def _water_fill(counts: Ints, quantity: int, most: int) -> Ints:
    """Return how many partitions each task receives if they are distributed as evenly as possible.

    The tasks with the fewest partitions are filled first, up to `most`.
    """
    low, high = 0, most
    while low < high:
        level = (low + high + 1) // 2
        if int(np.maximum(level - counts, 0).sum()) <= quantity:
            low = level
        else:
            high = level - 1
    dealt = np.maximum(low - counts, 0)
    rest = quantity - int(dealt.sum())
    if low < most and rest:
        dealt[np.flatnonzero(counts + dealt == low)[:rest]] += 1
    return dealt


def _deal(tasks: Ranks, dealt: Ints) -> TaskOf:
    """Distribute the slots of tasks in rounds: one slot of each task, then the next slot of each.

    The order distributes the heavier partitions over the tasks.
    """
    owner = np.repeat(np.arange(len(tasks)), dealt)
    starts = np.repeat(np.cumsum(dealt) - dealt, dealt)
    rank = np.arange(len(owner)) - starts
    return tasks[owner[np.lexsort((owner, rank))]].astype(np.int32)


def best_fit(sizes: Ints, room: int, tasks: int, limits: Limits = UNLIMITED) -> TaskOf:
    """Best fit decreasing in one dimension: assign each partition to the fullest task in which it fits.

    `sizes`: int64[n], heaviest first. A partition that fits into none of the `tasks` gets -1.
    """
    chosen = [-1] * len(sizes)
    free = [(room, task) for task in range(tasks)]
    counts = [0] * tasks
    for rank, size in enumerate(sizes.tolist()):
        position = bisect_left(free, (size, -1))
        if position == len(free):
            continue
        left, task = free.pop(position)
        chosen[rank] = task
        counts[task] += 1
        if limits.admits_one(counts[task]):
            insort(free, (left - size, task))
    return np.array(chosen, dtype=np.int32)


def assign_lpt(
    sizes: Ints, ranks: Ranks, loads: Ints, counts: Ints, room: Ints, limits: Limits = UNLIMITED
) -> TaskOf:
    """Longest processing time first: assign each partition to the lightest task, in the order of `ranks`.

    `sizes`: int64[n, D]. `loads`: int64[m, D] and `counts`: int64[m] of the tasks; both are updated. Among
    tasks of equal load, the task with fewer partitions is chosen, then the lower number. With two dimensions,
    the lightest task is the task in which the sum of squares of loads over int64[D] `room` grows least.
    Returns the task of each of `ranks`; -1 if no task may take one more.
    """
    if sizes.shape[1] == 1:
        return _assign_lpt_bytes(sizes[ranks, 0], loads, counts, limits)
    return _assign_lpt_vectors(sizes[ranks], loads, counts, room, limits)


def _assign_lpt_bytes(sizes: Ints, loads: Ints, counts: Ints, limits: Limits) -> TaskOf:
    """Assign partitions in batches where this gives the same result as assigning one at a time.

    Equal results are common with many tasks. With tasks in the order of their loads and partitions in the
    order of their sizes, the j-th partition is assigned to the j-th task as long as that task is lighter than
    every task that has just received a partition.
    """
    if len(loads) < _BATCH:  # too few for a batch to pay off
        return _assign_lpt_singly(sizes.tolist(), loads, counts, limits)
    chosen = np.full(len(sizes), -1, np.int32)
    position = 0
    while position < len(sizes):
        order = np.lexsort((counts, loads[:, 0]))
        if limits.is_bounded:
            order = order[limits.admits(counts[order])]
        take = min(len(order), len(sizes) - position)
        if not take:
            break
        sorted_loads, batch = loads[order[:take], 0], sizes[position : position + take]
        lowest_after = np.minimum.accumulate(sorted_loads + batch)
        behind = np.flatnonzero(sorted_loads[1:] >= lowest_after[:-1])
        count = int(behind[0]) + 1 if len(behind) else take
        if count < min(take, _BATCH):
            count = min(_CHUNK, len(sizes) - position)
            batch = sizes[position : position + count]
            chosen[position : position + count] = _assign_lpt_singly(batch.tolist(), loads, counts, limits)
        else:
            tasks = order[:count]
            chosen[position : position + count] = tasks
            loads[tasks, 0] += batch[:count]
            counts[tasks] += 1
        position += count
    return chosen


def _assign_lpt_singly(sizes: list[int], loads: Ints, counts: Ints, limits: Limits) -> TaskOf:
    most = _highest_count(counts, len(sizes) + 1, limits)
    heap = [
        (load, count, task)
        for task, (load, count) in enumerate(zip(loads[:, 0].tolist(), counts.tolist(), strict=True))
        if count < most
    ]
    heapify(heap)
    chosen = [-1] * len(sizes)
    for position, size in enumerate(sizes):
        if not heap:
            break
        load, count, task = heap[0]
        chosen[position] = task
        if count + 1 < most:
            heapreplace(heap, (load + size, count + 1, task))
        else:
            heappop(heap)
    tasks = np.array(chosen, dtype=np.int32)
    placed = tasks >= 0
    np.add.at(loads[:, 0], tasks[placed], np.array(sizes, dtype=np.int64)[placed])
    counts += np.bincount(tasks[placed], minlength=len(counts))
    return tasks


def _assign_lpt_vectors(sizes: Ints, loads: Ints, counts: Ints, room: Ints, limits: Limits) -> TaskOf:
    present = loads / room
    shares = sizes / room
    closed = np.where(limits.admits(counts), 0.0, np.inf)
    tasks = np.full(len(sizes), -1, np.int32)
    for position, share in enumerate(shares):
        growth = present @ share + closed
        task = int(growth.argmin())
        if growth[task] == np.inf:
            break
        tasks[position] = task
        present[task] += share
        counts[task] += 1
        if not limits.admits_one(int(counts[task])):
            closed[task] = np.inf
    placed = tasks >= 0
    np.add.at(loads, tasks[placed], sizes[placed])
    return tasks
