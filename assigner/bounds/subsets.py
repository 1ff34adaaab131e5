"""Computes the sums of all subsets of partitions, and finds the partitions of one subset."""

from __future__ import annotations

import numpy as np

from assigner.problem.problem import Ints, Ranks


def subset_sums(sizes: Ints) -> tuple[Ints, Ints]:
    """Return the sums of all subsets in ascending order, and each subset as a bit mask."""
    sums = np.zeros(1, np.int64)
    for size in sizes.tolist():
        sums = np.concatenate((sums, sums + size))
    order = np.argsort(sums, kind="stable")
    return sums[order], order


def chosen(ranks: Ranks, mask: int) -> Ranks:
    """Return the ranks whose bit is set in the mask of a subset."""
    wanted = ((mask >> np.arange(len(ranks))) & 1).astype(bool)
    return np.asarray(ranks[wanted])
