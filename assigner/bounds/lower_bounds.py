"""Lower bounds on the number of tasks, on the highest load of a task, and on the bytes that must move.

Task bounds: the continuous bound L1; L2 of Martello and Toth, "Lower bounds and reduction procedures for the
bin packing problem", Discrete Applied Mathematics 28 (1990); the dual-feasible functions u(k) of Fekete and
Schepers, "New classes of fast lower bounds for bin packing problems", Mathematical Programming 91 (2001); and
the bound of `Limits`. All bounds use exact integers.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Final

import numpy as np

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, TaskOf

_LARGEST_K: Final = 30
_STEPS: Final = 48
_CORE: Final = 10_000


def task_bound(sizes: Ints, usable: Ints, limits: Limits = UNLIMITED) -> int:
    """Return a lower bound on the number of tasks into which the partitions fit.

    No partition exceeds `usable` alone. `sizes`: int64[n, D], `usable`: int64[D].
    """
    best = limits.bound(len(sizes))
    for dimension, room in enumerate(usable.tolist()):
        descending = -np.sort(-sizes[:, dimension])
        best = max(best, continuous_bound(descending, room))
        best = max(best, pairing_bound(descending, room), rounding_bound(descending, room))
    return best


def moves_bound(sizes: Ints, homes: TaskOf, target: Ints) -> int:
    """Return a lower bound on the number of partitions that must leave tasks loaded above the target.

    Each such task gives away its heaviest partitions until the others fit. `sizes`: int64[n, D], `homes`:
    int32[n], -1 for partitions that need not stay anywhere, `target`: int64[D].
    """
    found = 0
    for task in np.unique(homes[homes >= 0]).tolist():
        own = sizes[homes == task]
        excess = (own.sum(axis=0) - target).tolist()
        heaviest = (np.cumsum(-np.sort(-own[:, dimension])) for dimension in range(len(excess)))
        needed = [
            int(np.searchsorted(sums, bytes_over)) + 1
            for sums, bytes_over in zip(heaviest, excess, strict=True)
            if bytes_over > 0
        ]
        found += max(needed, default=0)
    return found


def continuous_bound(sizes: Ints, room: int) -> int:
    """Return L1: the total load divided by the capacity of a task, rounded up."""
    return -(-int(sizes.sum()) // room)


def pairing_bound(descending: Ints, room: int) -> int:
    """Return the lower bound L2 on the number of tasks, which counts partitions that cannot share a task.

    For every size a up to room/2: partitions above room - a leave no room for partitions of at least a;
    partitions above room/2 leave their remaining room for partitions between a and room/2.
    """
    if not len(descending) or descending[0] == 0:
        return 0
    ascending = descending[::-1]
    count = len(descending)
    above_half = count - int(np.searchsorted(ascending, room // 2, side="right"))
    small = descending[above_half:]
    small = small[np.diff(small, append=-1) != 0]
    small = small[small > 0]
    if not len(small):
        return above_half
    prefix = np.concatenate(([0], np.cumsum(descending)))
    alone = count - np.searchsorted(ascending, room - small, side="right")
    at_least = count - np.searchsorted(ascending, small, side="left")
    beside = (above_half - alone) * room - (prefix[above_half] - prefix[alone])
    overflow = prefix[at_least] - prefix[above_half] - beside
    return above_half + max(0, -(-int(overflow.max()) // room))


def rounding_bound(descending: Ints, room: int) -> int:
    """Return the bound by the dual feasible functions u(k): x if (k+1)x is whole, else floor((k+1)x)/k."""
    best = 0
    for k in range(1, _LARGEST_K + 1):
        used = int(np.searchsorted(-descending, (-room) // (k + 1), side="right"))
        if not used:
            continue
        quotient, rest = np.divmod(descending[:used] * (k + 1), room)
        exact = rest == 0
        whole = int(quotient[~exact].sum())
        kept = int(descending[:used][exact].sum())
        best = max(best, -(-(whole * room + kept * k) // (k * room)))
    return best


def load_bound(sizes: Ints, tasks: int) -> int:
    """Return a lower bound on the load of the fullest task, if `tasks` tasks share the partitions. One
    dimension.

    The bound is the maximum of the mean, the heaviest partition, the pigeonhole bound (of i*m + 1 partitions
    some i + 1 share a task), and the smallest room for which L2 allows this number of tasks. `sizes`:
    int64[n].
    """
    descending = -np.sort(-sizes)
    if not len(descending):
        return 0
    best = max(-(-int(descending.sum()) // tasks), int(descending[0]), _pigeonhole(descending, tasks))
    core = descending[: max(8 * tasks, _CORE)]
    low, high = best, 2 * best
    if _needs(core, low) <= tasks:
        return best
    for _ in range(_STEPS):
        if high - low <= 1:
            break
        middle = (low + high) // 2
        if _needs(core, middle) <= tasks:
            high = middle
        else:
            low = middle
    return low + 1


def _needs(descending: Ints, room: int) -> int:
    return pairing_bound(descending, room)


def _pigeonhole(descending: Ints, tasks: int) -> int:
    count = len(descending)
    layers = (count - 1) // tasks
    prefix = np.concatenate(([0], np.cumsum(descending)))
    layer = np.arange(1, min(layers, 64) + 1)
    if not len(layer):
        return 0
    last = layer * tasks + 1
    return int((prefix[last] - prefix[last - layer - 1]).max())


def newcomers_bound(loads: Ints, newcomers: Ints, target: int) -> int:
    """Return a lower bound on the bytes that must leave tasks so that large new partitions fit.

    Two new partitions above half of the target cannot share a task. `loads`: int64[m], load of tasks without
    the partitions that must leave anyway. The bytes that must leave a task are convex in its load. The
    cheapest solution therefore pairs the heaviest new partition with the lightest task, the second heaviest
    with the second lightest, and so on.
    """
    large = -np.sort(-newcomers[2 * newcomers > target])[: len(loads)]
    hosts = np.sort(loads)[: len(large)]
    return int(np.maximum(hosts + large - target, 0).sum())


def cheapest_sets(costs: Ints, count: int, most: int) -> list[tuple[int, ...]]:
    """Return the `most` cheapest combinations of `count` elements, cheapest first.

    A set contains indices into `costs`: int64[n], none negative. Each set results from a cheaper set by
    replacing one member with the next more expensive element. A heap of the sets therefore returns them in
    the order of their costs.
    """
    order = np.argsort(costs, kind="stable").tolist()
    first = tuple(range(count))
    reach = [(int(costs[order[:count]].sum()), first)]
    seen = {first}
    found: list[tuple[int, ...]] = []
    while reach and len(found) < most:
        total, places = heappop(reach)
        found.append(tuple(order[place] for place in places))
        for position, place in enumerate(places):
            if place + 1 == len(order) or place + 1 in places:
                continue
            other = (*places[:position], place + 1, *places[position + 1 :])
            if other not in seen:
                seen.add(other)
                heappush(reach, (total + int(costs[order[place + 1]] - costs[order[place]]), other))
    return found
