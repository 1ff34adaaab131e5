"""Task counts within a millisecond, by a simple packing without a search for fewer tasks.

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


def quick_tasks(sizes: Ints, usable: Ints, limits: Limits) -> int:
    """Return the tasks that a simple packing fills, each partition above `usable` in a task of its own.

    `sizes`: int64[n, D] in any order, `usable`: int64[D]. At least 1.
    """
    alone = (sizes > usable).any(axis=1)
    own, rest = int(alone.sum()), sizes[~alone]
    if not len(rest):
        return max(own, 1)
    rest = rest[np.argsort(-(rest / usable).sum(axis=1), kind="stable")]
    sums = rest.sum(axis=0)
    least = max(1, limits.bound(len(rest)), int((-(-sums // usable)).max()))
    if least == _most_tasks(rest, usable, limits):
        return own + least
    return own + _packed(rest, usable, limits)


def _most_tasks(sizes: Ints, usable: Ints, limits: Limits) -> int:
    """Return an upper bound on the tasks of every packing that opens a task only if necessary.

    `sizes`: int64[n, D] in the order of packing.
    """
    before = np.cumsum(sizes, axis=0) - sizes
    places = np.arange(len(sizes))
    open_tasks = (before // (usable - sizes + 1)).sum(axis=1)
    if limits.partitions is not None:
        open_tasks = open_tasks + places // limits.partitions
    return int(np.minimum(open_tasks, places).max()) + 1


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
