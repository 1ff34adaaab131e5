"""Computes task counts within a millisecond, by a simple packing.

The packing is best fit decreasing, which opens a task only if no open task has room for the next partition.
When it opens a task for a partition of size s, every open task of room R has a load above R - s. The number
of open tasks is therefore at most the placed load divided by R - s. If this upper bound equals the lower
bound from the sum of all loads, no packing is needed.
"""

from __future__ import annotations

import numpy as np

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints
from assigner.search.greedy import best_fit


def quick_tasks(sizes: Ints, usable: Ints, limits: Limits) -> list[int]:
    """Return for each hour the number of tasks that a simple packing fills. A partition above `usable` gets
    its own task.

    `sizes`: int64[hours, n, D] in any order, `usable`: int64[D]. At least 1.
    """
    is_alone = np.asarray((sizes > usable).any(axis=2))
    shares = np.where(is_alone, -1.0, (sizes / usable).sum(axis=2))
    order = np.argsort(-shares, axis=1, kind="stable")
    rest = np.take_along_axis(np.where(is_alone[:, :, None], 0, sizes), order[:, :, None], axis=1)
    own = is_alone.sum(axis=1)
    sums = (-(-rest.sum(axis=1) // usable)).max(axis=1)
    most = _most_tasks(rest, sizes.shape[1] - own, usable, limits)
    found = []
    for hour, alone in enumerate(own.tolist()):
        count = sizes.shape[1] - alone
        least = max(1, limits.bound(count), int(sums[hour])) if count else 0
        if least < most[hour]:
            least = _packed(rest[hour, :count], usable, limits)
        found.append(max(alone + least, 1))
    return found


def _most_tasks(sizes: Ints, counts: Ints, usable: Ints, limits: Limits) -> Ints:
    """Return for each hour an upper bound on the number of tasks.

    The bound holds for every packing that opens a task only if necessary. `sizes`: int64[hours, n, D] in the
    order of packing; only the first `counts` of each hour are packed.
    """
    before = np.cumsum(sizes, axis=1) - sizes
    places = np.arange(sizes.shape[1])
    open_tasks = (before // (usable - sizes + 1)).sum(axis=2)
    if limits.partitions is not None:
        open_tasks = open_tasks + places // limits.partitions
    opened = np.minimum(open_tasks, places) + 1
    return np.asarray(np.where(places < counts[:, None], opened, 0).max(axis=1, initial=0))


def _packed(sizes: Ints, usable: Ints, limits: Limits) -> int:
    if len(usable) == 1:
        return int(best_fit(sizes[:, 0], int(usable[0]), len(sizes), limits).max()) + 1
    return _first_fit_count(sizes, usable, limits)


def _first_fit_count(sizes: Ints, usable: Ints, limits: Limits) -> int:
    """Return the tasks that first fit fills in two dimensions."""
    loads, counts = np.zeros_like(sizes), np.zeros(len(sizes), np.int64)
    used = 0
    for size in sizes:
        fits = (loads[:used] + size <= usable).all(axis=1) & limits.admits(counts[:used])
        task = int(fits.argmax()) if fits.any() else used
        used = max(used, task + 1)
        loads[task] += size
        counts[task] += 1
    return used
