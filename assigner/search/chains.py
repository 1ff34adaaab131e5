"""Ejection chains in one dimension: a partition returns to its task and displaces another one, and so on.

A chain starts with a partition that was displaced from its task, or that has no task. The partition moves to
its own task (or to any task) and displaces another partition, which moves in turn, until the last partition
finds room. A chain is applied if the displaced partitions have fewer bytes afterwards. The method is the
search of cyclic and path exchanges by Ahuja, Orlin and Sharma, "Multi-exchange neighborhood structures for
the capacitated minimum spanning tree problem", Mathematical Programming 91 (2001). A path of negative cost
always has a start from which every partial path is negative, so only such paths are extended.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, TaskOf

_DEPTH: Final = 5
_WIDTH: Final = 24
"""Number of chains extended at each depth."""
_TRIED_TOGETHER: Final = 10
"""Number of partitions of a task whose subsets are all tried for eviction."""
_FRUITLESS: Final = 2
"""Number of iterations without a gain after which the search ends."""
_FAR: Final = np.int64(2**62)
_OUTSIDE: Final = np.int64(2**61)
"""Gain from assigning a task to a partition that has none."""

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ChainGoal:
    """Target of a search for ejection chains: maximum load of tasks, and the preferred task of each
    partition.

    `room`: load that chains must not cause a task to exceed. `homes`: int32[n], task in which a partition has
    no cost; -1 for no cost in any task. `limits`: further limits of a task.
    """

    room: int
    homes: TaskOf
    limits: Limits = UNLIMITED


class _ChainStep(NamedTuple):
    """Equally long ejection chains that are not complete yet.

    `item`: int64[k], displaced partition without a task; `cost`: int64[k] of the incomplete chain; `seen`:
    int64[k, depth], tasks of the chain; `parent`: int64[k], row of the previous step.
    """

    item: Ints
    cost: Ints
    seen: Ints
    parent: Ints


class _End(NamedTuple):
    """Cheapest completion of an ejection chain: its cost, its last step, and the task with room for the last
    partition."""

    cost: int
    depth: int
    row: int
    task: int


_NO_END: Final = _End(0, -1, -1, -1)


def shorten(sizes: Ints, task_of: TaskOf, tasks: int, goal: ChainGoal, work: int) -> TaskOf:
    """Return the placement after applying all improving ejection chains found.

    Chains from partitions without a task come first. `sizes`: int64[n]. `task_of`: int32[n], -1 without a
    task. `work`: maximum number of partitions to examine; about ten million take a second. The limit is not a
    time, so that equal input gives equal results.
    """
    search = _Search(sizes, task_of, tasks, goal, work)
    search.descend(search.displaced())
    return search.task_of


def bring_home(sizes: Ints, task_of: TaskOf, tasks: int, goal: ChainGoal, work: int) -> TaskOf:
    """Improve a placement further when no single ejection chain improves it.

    All partitions have a task. A partition is moved to its own task unconditionally, chains find tasks for
    the displaced partitions, and the result is kept unless more bytes are displaced than before. Each pass
    covers all displaced partitions in random order. The search ends after some passes without a gain.
    """
    search = _Search(sizes, task_of, tasks, goal, work)
    random = np.random.default_rng(len(sizes))
    search.descend(search.displaced())
    fruitless = 0
    while search.work > 0 and fruitless < _FRUITLESS:
        before = search.cost()
        for item in random.permutation(search.displaced()).tolist():
            search.force_home(item)
            if search.work <= 0:
                break
        fruitless = fruitless + 1 if search.cost() >= before else 0
    return search.task_of


class _Search:
    """Search for ejection chains, which it applies to its copy of a placement. `work`: remaining effort."""

    def __init__(self, sizes: Ints, task_of: TaskOf, tasks: int, goal: ChainGoal, work: int) -> None:
        self.task_of, self.work = task_of.copy(), work
        self._sizes, self._goal = sizes, goal
        placed = task_of >= 0
        self._loads = np.zeros(tasks, np.int64)
        np.add.at(self._loads, task_of[placed], sizes[placed])
        self._counts = np.bincount(task_of[placed], minlength=tasks).astype(np.int64)
        self._worth = np.where(goal.homes >= 0, sizes, 0)

    def displaced(self) -> list[int]:
        """Return the partitions that have no task or are not in their preferred task.

        Partitions without a task come first, then the heaviest.
        """
        displaced = np.flatnonzero(self._displaced_mask())
        order = np.lexsort((displaced, -self._sizes[displaced], self.task_of[displaced] >= 0))
        return [int(item) for item in displaced[order]]

    def cost(self) -> int:
        """Return the cost of the placement, which the search minimizes.

        The cost is the size of the partitions that are not in their own task (in units), plus a much larger
        cost for each partition without a task.
        """
        outside = int(np.count_nonzero(self.task_of < 0))
        return int(self._worth[self.task_of != self._goal.homes].sum()) + int(_OUTSIDE) * outside

    def _displaced_mask(self) -> Mask:
        strays = (self._worth > 0) & (self.task_of != self._goal.homes)
        return np.asarray(strays | (self.task_of < 0))

    def descend(self, starts: list[int]) -> None:
        """Apply ejection chains until none improves the placement. Chains start at `starts` and at partitions
        moved by earlier chains."""
        waiting = starts
        while waiting and self.work > 0:
            item, *waiting = waiting
            if self._displaced_mask()[item] and (changed := self.improve(item)):
                waiting = list(dict.fromkeys([*changed, *waiting]))

    def force_home(self, item: int) -> None:
        """Move a partition to its preferred task and find tasks for displaced partitions; undo this if the
        cost rises."""
        home = int(self._goal.homes[item])
        if home < 0 or self.task_of[item] == home:
            return
        cost, before = self.cost(), (self.task_of.copy(), self._loads.copy(), self._counts.copy())
        pushed = self._least_in_the_way(home, item)
        if pushed is None:
            return
        for removed in (item, *pushed):
            self._put(removed, -1)
        self._put(item, home)
        changed = [item, *pushed]
        for pushed_item in pushed:
            if self.task_of[pushed_item] < 0:
                changed += (moved := self.improve(pushed_item))
                if not moved:
                    break
        if (self.task_of[pushed] >= 0).all():
            self.descend(list(dict.fromkeys(changed)))
        if self.cost() > cost:
            self.task_of, self._loads, self._counts = before

    def _least_in_the_way(self, task: int, item: int) -> list[int] | None:
        """Return the partitions that must leave a task so that `item` fits, in descending order of load.

        The set has the lowest cost and, among sets of equal cost, the lowest load. None means that no removal
        suffices.
        """
        members = np.flatnonzero(self.task_of == task)[:_TRIED_TOGETHER]
        masks = (np.arange(1 << len(members))[:, None] >> np.arange(len(members))) & 1
        is_home = self._goal.homes[members] == task
        cost, freed = masks @ np.where(is_home, self._worth[members], 0), masks @ self._sizes[members]
        enough = self._loads[task] + self._sizes[item] - freed <= self._goal.room
        after = self._counts[task] - masks.sum(axis=1)
        possible = np.flatnonzero(enough & self._goal.limits.admits(after))
        if not len(possible):
            return None
        chosen = masks[possible[np.lexsort((freed[possible], cost[possible]))[0]]] > 0
        return [int(member) for member in members[chosen]]

    def improve(self, start: int) -> list[int]:
        """Apply the best ejection chain that starts at a partition, if any, and return the moved
        partitions."""
        self.work -= _DEPTH * _WIDTH * len(self._sizes) // 4
        origin = int(self.task_of[start])
        cost = np.array([0 if origin >= 0 else -_OUTSIDE], np.int64)
        steps = [_ChainStep(np.array([start]), cost, np.full((1, 1), origin, np.int64), np.array([-1]))]
        best = _NO_END
        for depth in range(_DEPTH):
            best = min(best, self._end(steps[-1], depth, start, origin), key=lambda end: end.cost)
            following = self._continued(steps[-1], best.cost)
            if not len(following.item):
                break
            steps.append(following)
        return self._carry_out(steps, best) if best.task >= 0 else []

    def _end(self, step: _ChainStep, depth: int, start: int, origin: int) -> _End:
        """Return the cheapest complete chain that extends an incomplete chain.

        The last partition moves to a task with room.
        """
        after = self._loads[None, :] + self._sizes[step.item][:, None]
        counts = self._counts
        if depth and origin >= 0:
            after[:, origin] -= self._sizes[start]
            counts = counts - (np.arange(len(counts)) == origin)
        open_to = (after <= self._goal.room) & self._goal.limits.admits(counts)[None, :]
        rows = np.arange(len(step.item))
        for column in range(1 if depth else 0, step.seen.shape[1]):
            is_there = step.seen[:, column] >= 0
            open_to[rows[is_there], step.seen[is_there, column]] = False
        total = np.repeat(step.cost[:, None], len(self._loads), axis=1)
        homes = self._goal.homes[step.item]
        known = homes >= 0
        total[rows[known], homes[known]] -= self._worth[step.item[known]]
        total = np.where(open_to, total, _FAR)
        lowest = int(total.min())
        if lowest >= 0:
            return _NO_END
        row, task = divmod(int(np.where(total == lowest, after, -1).argmax()), len(self._loads))
        return _End(lowest, depth, row, task)

    def _continued(self, step: _ChainStep, bar: int) -> _ChainStep:
        """Return the cheapest extensions of the incomplete chains by one step.

        In each extension, the partition moves to a task and displaces another partition.
        """
        there = np.maximum(self.task_of, 0)
        free = self._goal.room - self._loads[there] + self._sizes
        possible = (self._sizes[step.item][:, None] <= free[None, :]) & (self.task_of >= 0)[None, :]
        for column in range(step.seen.shape[1]):
            possible &= step.seen[:, column][:, None] != self.task_of[None, :]
        homes = self._goal.homes[step.item]
        comes_home = (homes[:, None] == self.task_of[None, :]) & (homes >= 0)[:, None]
        leaves_home = np.where(self.task_of == self._goal.homes, self._worth, 0)
        cost = step.cost[:, None] - np.where(comes_home, self._worth[step.item][:, None], 0)
        cost = np.where(possible, cost + leaves_home[None, :], _FAR)
        parent = cost.argmin(axis=0)
        lowest = cost[parent, np.arange(len(self._sizes))]
        items = np.flatnonzero(lowest < min(bar, 0))
        items = items[np.lexsort((items, self._sizes[items], lowest[items]))[:_WIDTH]]
        parent = parent[items]
        seen = np.concatenate((step.seen[parent], self.task_of[items][:, None].astype(np.int64)), axis=1)
        return _ChainStep(items, lowest[items], seen, parent)

    def _carry_out(self, steps: list[_ChainStep], end: _End) -> list[int]:
        """Apply a chain, beginning with its last step.

        Each partition moves to the task that the next partition has left.
        """
        row, task, moved = end.row, end.task, []
        for step in reversed(steps[: end.depth + 1]):
            item = int(step.item[row])
            before = int(self.task_of[item])
            self._put(item, task)
            moved.append(item)
            task, row = before, int(step.parent[row])
        return moved

    def _put(self, item: int, task: int) -> None:
        """Move a partition to a task; -1 removes it from its task."""
        for place, sign in ((int(self.task_of[item]), -1), (task, 1)):
            if place >= 0:
                self._loads[place] += sign * self._sizes[item]
                self._counts[place] += sign
        self.task_of[item] = task
