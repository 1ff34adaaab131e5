"""The cheapest way to take enough off one task: a subset of its partitions, as light as possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.balance import subset_sums
from assigner.problem import Ints, Ranks

_EXACT: Final = 32
"""Partitions of one task whose subsets are all tried, in two halves: 2 * 2 ** 16 sums."""
_CLOSE: Final = 20
_PER_PARTITION: Final = 64
"""Sizes are multiplied by this and 1 is added, so that among equal sums fewer partitions win."""


@dataclass(frozen=True, slots=True)
class Cover:
    """`taken`: what leaves. `least`: no subset that relieves enough is lighter than this."""

    taken: Ranks
    least: int


def cheapest_cover(ranks: Ranks, sizes: Ints, excess: int, exact: int = _EXACT) -> Cover:
    """The lightest subset of the partitions whose loads sum to at least `excess`, then the smallest.

    `ranks`: int64[k], `sizes`: int64[k] of them, descending; together they must reach the excess.
    Exact for up to `exact` partitions below the excess; else the heaviest that fit are taken until
    what remains can be met closely, and `least` is the excess itself.
    """
    larger = int(np.count_nonzero(sizes >= excess))
    useful = np.flatnonzero(sizes > 0)
    useful = useful[useful >= max(larger - 1, 0)]
    below = useful[useful >= larger]
    if len(below) <= exact:
        found = _exact_cover(sizes[useful], excess)
        taken = useful[found]
        return Cover(ranks[taken], int(sizes[taken].sum()))
    if larger and int(sizes[below].sum()) < excess:
        return Cover(ranks[larger - 1 : larger], int(sizes[larger - 1]))
    taken, left = _greedy(sizes, below, excess)
    if left > 0:
        taken = np.concatenate((taken, _close(sizes, np.setdiff1d(below, taken), left)))
    total = int(sizes[taken].sum())
    if larger and int(sizes[larger - 1]) <= total:
        taken, total = np.array([larger - 1]), int(sizes[larger - 1])
    return Cover(ranks[np.sort(taken)], excess)


def _greedy(sizes: Ints, below: Ranks, excess: int) -> tuple[Ranks, int]:
    """The heaviest that still fit under the excess, until the rest can be met by light ones closely."""
    taken: list[int] = []
    left = excess
    reach = int(sizes[below[-_CLOSE:]].sum())
    for index in below[:-_CLOSE].tolist():
        if left <= reach:
            break
        size = int(sizes[index])
        if size <= left:
            taken.append(index)
            left -= size
    return np.array(taken, np.int64), left


def _close(sizes: Ints, free: Ranks, left: int) -> Ranks:
    """Cover what is left from the twenty partitions around its size, or from all free ones in turn."""
    reaching = np.flatnonzero(np.cumsum(sizes[free[::-1]]) >= left)
    start = len(free) - 1 - int(reaching[0]) if len(reaching) else 0
    window = free[max(0, min(start, len(free) - _CLOSE)) :][:_CLOSE]
    if int(sizes[window].sum()) >= left:
        return window[_exact_cover(sizes[window], left)]
    total = np.cumsum(sizes[free])
    return free[: int(np.searchsorted(total, left)) + 1]


def _exact_cover(sizes: Ints, excess: int) -> Ranks:
    """Meet in the middle: the smallest sum of two half subsets that reaches the excess."""
    weights = sizes * _PER_PARTITION + 1
    wanted = excess * _PER_PARTITION
    half = len(sizes) // 2
    left_sums, left_masks = subset_sums(weights[:half])
    right_sums, right_masks = subset_sums(weights[half:])
    partner = np.searchsorted(right_sums, wanted - left_sums)
    possible = np.flatnonzero(partner < len(right_sums))
    totals = left_sums[possible] + right_sums[partner[possible]]
    best = int(possible[totals.argmin()])
    mask = int(left_masks[best]) | int(right_masks[partner[best]]) << half
    return np.flatnonzero((mask >> np.arange(len(sizes))) & 1)
