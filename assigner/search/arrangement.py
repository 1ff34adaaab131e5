"""A placement during its construction: the load, number and ranks of each task's partitions."""

from __future__ import annotations

import numpy as np

from assigner.problem.problem import Ints, Ranks, TaskOf


class Arrangement:
    """Assignment of partitions to tasks that a stage changes step by step.

    `sizes`: int64[n, D] by rank. `task_of`: int32[n], -1 if a partition has no task. `loads`: int64[m, D].
    `counts`: int64[m]. Only `transfer` and `put` change the placement.
    """

    __slots__ = ("_changed", "_members", "_starts", "counts", "loads", "sizes", "task_of")

    def __init__(self, sizes: Ints, task_of: TaskOf, tasks: int) -> None:
        self.sizes = sizes
        self.task_of = task_of.astype(np.int32, copy=True)
        placed = np.flatnonzero(self.task_of >= 0)
        self.loads = np.zeros((tasks, sizes.shape[1]), np.int64)
        for dimension in range(sizes.shape[1]):
            np.add.at(self.loads[:, dimension], self.task_of[placed], sizes[placed, dimension])
        self.counts = np.bincount(self.task_of[placed], minlength=tasks).astype(np.int64)
        self._members = placed[np.argsort(self.task_of[placed], kind="stable")]
        self._starts = np.concatenate(([0], np.cumsum(self.counts)))
        self._changed: dict[int, Ranks] = {}

    @property
    def tasks(self) -> int:
        """Number of tasks, including empty tasks."""
        return len(self.counts)

    def members(self, task: int) -> Ranks:
        """Return the task's partitions as ascending positions in the order of load. Do not modify it."""
        found = self._changed.get(task)
        if found is None:
            found = self._members[self._starts[task] : self._starts[task + 1]]
        return found

    def transfer(self, giver: int, taker: int, given: Ranks, taken: Ranks | None = None) -> None:
        """Move partitions between two tasks: `given` from giver to taker, and `taken` from taker to giver."""
        back = np.empty(0, np.int64) if taken is None else taken
        self._changed[giver] = _merge(self.members(giver), given, back)
        self._changed[taker] = _merge(self.members(taker), back, given)
        self.task_of[given] = taker
        self.task_of[back] = giver
        change = self.sizes[given].sum(axis=0) - self.sizes[back].sum(axis=0)
        self.loads[giver] -= change
        self.loads[taker] += change
        self.counts[giver] += len(back) - len(given)
        self.counts[taker] += len(given) - len(back)

    def put(self, rank: int, task: int) -> None:
        """Assign a partition without a task to a task."""
        none = np.empty(0, np.int64)
        self._changed[task] = _merge(self.members(task), none, np.array([rank]))
        self.task_of[rank] = task
        self.loads[task] += self.sizes[rank]
        self.counts[task] += 1


def _merge(present: Ranks, removed: Ranks, come: Ranks) -> Ranks:
    """Return the ranks of a task's partitions after an exchange, ascending. Does not sort for single
    partitions, the usual case."""
    if len(removed) == 1:
        present = present[present != removed[0]]
    elif len(removed):
        present = present[~np.isin(present, removed)]
    if len(come) == 1:
        place = int(np.searchsorted(present, come[0]))
        return np.concatenate((present[:place], come, present[place:]))
    return np.sort(np.concatenate((present, come))) if len(come) else present
