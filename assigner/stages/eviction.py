"""Selects partitions that must leave their tasks, as few bytes as possible, with a lower bound.

Partitions leave a task that is removed, that an offending partition needs for itself, that has too many
partitions, or that is overloaded. All other partitions stay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.bounds.covers import SearchDepth, cheapest_cover
from assigner.problem.limits import Limits
from assigner.problem.problem import Ints, Ranks, TaskOf

_MANY_TASKS: Final = 100
_FEW_PARTITIONS: Final = 4_000

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Eviction:
    """Partitions that stay in their tasks. `kept`: task in rank order, -1 if the partition leaves or is new.
    `least`: for each task, lower bound on the bytes that leave it (units)."""

    kept: TaskOf
    least: Ints


def evict(
    sizes: Ints, home: TaskOf, isolated: Mask, relieved: Mask, target: Ints, limits: Limits
) -> Eviction:
    """Choose the lightest partitions to remove, so that no task of `relieved` exceeds int64[D] `target`.

    `sizes`: int64[n, D] by rank, `home`: int32[n]. `isolated`: bool[n], partitions that need a dedicated
    task: the heaviest partition of such a task stays, all other partitions leave. `relieved`: bool[tasks].
    """
    tasks = len(relieved)
    kept = home.copy()
    least = np.zeros(tasks, np.int64)
    order = np.argsort(home, kind="stable")
    starts = np.searchsorted(home[order], np.arange(tasks + 1))
    counts = np.diff(starts)
    with_owner = np.zeros(tasks, dtype=bool)
    with_owner[home[isolated & (home >= 0)]] = True
    touched = np.flatnonzero(with_owner | relieved | ~limits.allows(counts))
    depth = _search_depth(len(home), len(touched))
    for task in touched.tolist():
        members = order[starts[task] : starts[task + 1]]
        if with_owner[task]:
            leaving = _all_but_the_heaviest(members, isolated)
            least[task] = sizes[leaving, 0].sum()
        else:
            leaving, least[task] = _least(sizes, members, target, relieved[task], limits, depth)
        kept[leaving] = -1
    return Eviction(kept, least)


def _search_depth(partitions: int, touched: int) -> SearchDepth:
    if partitions <= _FEW_PARTITIONS:
        return SearchDepth.THOROUGH
    return SearchDepth.USUAL if touched <= _MANY_TASKS else SearchDepth.QUICK


def _all_but_the_heaviest(members: Ranks, isolated: Mask) -> Ranks:
    owner = members[isolated[members]][0]
    return np.asarray(members[members != owner])


def _least(
    sizes: Ints, members: Ranks, target: Ints, relieved: bool, limits: Limits, depth: SearchDepth
) -> tuple[Ranks, int]:
    """Return the partitions that leave one task, and a lower bound on the bytes that have to leave it."""
    extra = len(members) - limits.most(len(members))
    lightest = members[np.argsort(sizes[members, 0], kind="stable")[:extra]]
    excess = sizes[members].sum(axis=0) - target
    if not relieved or (excess <= 0).all():
        return lightest, int(sizes[lightest, 0].sum())
    if sizes.shape[1] == 1:
        cover = cheapest_cover(members, sizes[members, 0], int(excess[0]), depth)
        leaving, least = cover.taken, cover.least
    else:
        leaving = _vector_cover(sizes, members, excess)
        least = _vector_least(sizes, members, excess)
    missing = extra - len(leaving)
    if missing > 0:
        more = lightest[~np.isin(lightest, leaving)][:missing]
        leaving = np.concatenate((leaving, more))
        least = max(least, int(sizes[lightest, 0].sum()))
    return leaving, least


def _vector_cover(sizes: Ints, members: Ranks, excess: Ints) -> Ranks:
    """Choose partitions greedily whose removal brings a task within both dimensions.

    Partitions with the most relief per byte are added first; then unnecessary partitions are removed.
    """
    left = excess.astype(np.float64)
    free = members.tolist()
    taken: list[int] = []
    scale = np.maximum(excess, 1)
    while (left > 0).any() and free:
        loads = sizes[free]
        relief = (np.minimum(loads, np.maximum(left, 0)) / scale).sum(axis=1)
        best = int((relief / (loads[:, 0] + 1.0)).argmax())
        taken.append(free.pop(best))
        left -= sizes[taken[-1]]
    for rank in sorted(taken):
        if (left + sizes[rank] <= 0).all():
            taken.remove(rank)
            left += sizes[rank]
    return np.array(sorted(taken), np.int64)


def _vector_least(sizes: Ints, members: Ranks, excess: Ints) -> int:
    """Return a lower bound on the bytes that must leave a task, from a fractional knapsack in each
    dimension."""
    best = max(int(excess[0]), 0)
    for dimension in range(1, sizes.shape[1]):
        need = int(excess[dimension])
        loads = sizes[members]
        loads = loads[loads[:, dimension] > 0]
        order = np.argsort(loads[:, 0] / loads[:, dimension], kind="stable")
        relief = np.cumsum(loads[order, dimension])
        whole = int(np.searchsorted(relief, need)) if need > 0 else 0
        if need > 0 and whole < len(order):
            before = int(relief[whole - 1]) if whole else 0
            part = loads[order[whole]]
            last = int(part[0]) * (need - before) // max(int(part[dimension]), 1)
            best = max(best, int(loads[order[:whole], 0].sum()) + last)
    return best
