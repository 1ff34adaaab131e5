"""Maps new tasks to current tasks so that a full plan moves as little load as possible."""

from __future__ import annotations

from typing import Final

import numpy as np

from assigner.problem.problem import Ints, TaskOf

_DENSE: Final = 3_000
"""Number of tasks up to which the best matching is computed.

With more tasks, pairs are chosen greedily, which is optimal for one old or one new task.
"""


def relabel(bytes_: Ints, home: TaskOf, task_of: TaskOf, homes: int) -> tuple[TaskOf, int]:
    """Renumber new tasks so that as many bytes as possible stay in their task.

    Returns the placement and the number of task numbers. `bytes_`: int64[n]. `home`, `task_of`: int32[n].
    `homes`: number of current tasks, which keep their numbers 0..homes-1; a task without a match gets a
    number from `homes` upward.
    """
    tasks = int(task_of.max(initial=-1)) + 1
    both = np.flatnonzero((home >= 0) & (task_of >= 0))
    if not len(both) or not tasks:
        return (task_of + homes).astype(np.int32) if homes else task_of, homes + tasks
    old, new, overlap = _overlap(bytes_[both] + 1, home[both], task_of[both], homes)
    names = np.full(tasks, -1, np.int64)
    if min(homes, tasks) > 1 and max(homes, tasks) <= _DENSE:
        # Imported only when needed: an instance that plans nothing, or one task, saves 38 MiB.
        from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

        matrix = np.zeros((tasks, homes))
        matrix[new, old] = overlap
        rows, columns = linear_sum_assignment(matrix, maximize=True)
        names[rows] = columns
    else:
        _greedily(names, old, new, overlap)
    fresh = np.flatnonzero(names < 0)
    names[fresh] = homes + np.arange(len(fresh))
    result = np.where(task_of >= 0, names[task_of], -1).astype(np.int32)
    return result, homes + len(fresh)


def _overlap(weights: Ints, home: TaskOf, task_of: TaskOf, homes: int) -> tuple[Ints, Ints, Ints]:
    """Return (old task, new task, shared bytes) for all tasks that share partitions, heaviest first."""
    pairs, position = np.unique(task_of.astype(np.int64) * homes + home, return_inverse=True)
    shared = np.zeros(len(pairs), np.int64)
    np.add.at(shared, position, weights)
    order = np.lexsort((pairs, -shared))
    return pairs[order] % homes, pairs[order] // homes, shared[order]


def _greedily(names: Ints, old: Ints, new: Ints, overlap: Ints) -> None:
    taken = set()
    for before, after, _ in zip(old.tolist(), new.tolist(), overlap, strict=True):
        if names[after] < 0 and before not in taken:
            names[after] = before
            taken.add(before)
