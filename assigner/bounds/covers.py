"""Finds the lightest set of partitions that must leave a task to bring it below a target load."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from assigner.bounds.subsets import chosen, subset_sums
from assigner.problem.problem import Ints, Ranks

_EXACT: Final = 32
"""Maximum number of partitions for which all subsets are enumerated (2 * 2 ** 16 sums)."""
_QUICK: Final = 22
_CLOSE: Final = 20
_PER_PARTITION: Final = 64
"""Factor for each size, to which 1 is added.

Among sets of equal total size, the set with the fewest partitions therefore has the smallest sum.
"""
NEGLIGIBLE_UNITS: Final = 16
"""Excess in units at which the search for a lighter cover ends."""
_TRIES: Final = 8
_MOST_SUMS: Final = 2**17
_MASK_BITS: Final = 62

Sums = tuple[Ints, Ints]
"""Sums of subsets of partitions, ascending, and the subsets as bit masks."""


class SearchDepth(Enum):
    """Effort spent on finding the lightest subset of a task's partitions."""

    QUICK = "all subsets of up to 22 partitions"
    USUAL = "all subsets of up to 32 partitions"
    THOROUGH = "all subsets of up to 32 partitions, and of more while a much closer sum is possible"


@dataclass(frozen=True, slots=True)
class Cover:
    """Partitions to remove from a task (`taken`), and a lower bound on the load that any sufficient set has
    (`least`)."""

    taken: Ranks
    least: int


def cheapest_cover(
    ranks: Ranks, sizes: Ints, excess: int, depth: SearchDepth = SearchDepth.THOROUGH
) -> Cover:
    """Return the lightest subset of a task's partitions with a total load of at least `excess`.

    Among subsets of equal load, the subset with the fewest partitions is returned. `ranks`: int64[k],
    `sizes`: their int64[k] sizes, descending, with a total of at least the excess. The result is exact for up
    to 32 partitions below the excess (22 if quick), and for more if thorough and the relevant subsets can be
    enumerated. In all other cases, the cover is approximate, and `least` is the excess.
    """
    larger = int(np.count_nonzero(sizes >= excess))
    useful = np.flatnonzero(sizes > 0)
    useful = useful[useful >= max(larger - 1, 0)]
    below = useful[useful >= larger]
    if len(below) <= (_QUICK if depth is SearchDepth.QUICK else _EXACT):
        found = _exact_cover(sizes[useful], excess)
        taken = useful[found]
        return Cover(ranks[taken], int(sizes[taken].sum()))
    if larger and int(sizes[below].sum()) < excess:
        return Cover(ranks[larger - 1 : larger], int(sizes[larger - 1]))
    taken, least = _quick_cover(sizes, below, excess), excess
    if depth is SearchDepth.THOROUGH:
        nearer, is_least = _near_cover(sizes[below], excess, int(sizes[taken].sum()))
        taken = taken if nearer is None else below[nearer]
        least = int(sizes[taken].sum()) if is_least else excess
    if larger and int(sizes[larger - 1]) <= int(sizes[taken].sum()):
        taken = np.array([larger - 1])
        least = min(least, int(sizes[larger - 1]))
    return Cover(ranks[np.sort(taken)], least)


def _quick_cover(sizes: Ints, below: Ranks, excess: int) -> Ranks:
    taken, left = _greedy(sizes, below, excess)
    if left > 0:
        taken = np.concatenate((taken, _close(sizes, np.setdiff1d(below, taken), left)))
    return taken


def _near_cover(sizes: Ints, excess: int, found: int) -> tuple[Ranks | None, bool]:
    """Return a cover lighter than `found` units, if any, and whether that cover or `found` is proven to be
    the lightest.

    If the sums of many subsets are close to the excess, some subset of 32 random partitions nearly always has
    such a sum. If only few sums are close to the excess, all sums below `found` can be tried.
    """
    best: Ranks | None = None
    random = np.random.default_rng(len(sizes))
    for _ in range(_TRIES):
        if found <= excess + NEGLIGIBLE_UNITS:
            return best, found == excess
        window = np.sort(random.choice(len(sizes), _EXACT, replace=False))
        cover = _cover_with(sizes, window, excess)
        if cover is not None and int(sizes[cover].sum()) < found:
            best, found = cover, int(sizes[cover].sum())
    all_tried = _pruned_cover(sizes, excess, found - 1)
    if all_tried is None:
        return best, False
    return (all_tried if len(all_tried) else best), True


def _cover_with(sizes: Ints, window: Ranks, excess: int) -> Ranks | None:
    """Return a cover that ends with an exact choice among the partitions in `window`.

    The heaviest partitions outside the window are taken first, until at most half of the window's sum remains
    to be covered.
    """
    taken: list[int] = []
    left, whole = excess, int(sizes[window].sum())
    for index in np.setdiff1d(np.arange(len(sizes)), window).tolist():
        if 2 * left <= whole:
            break
        if int(sizes[index]) <= left:
            taken.append(index)
            left -= int(sizes[index])
    if not 0 < left <= whole:
        return np.array(taken, np.int64) if left <= 0 else None
    return np.concatenate((np.array(taken, np.int64), window[_exact_cover(sizes[window], left)]))


def _pruned_cover(sizes: Ints, excess: int, highest: int) -> Ranks | None:
    """Return the lightest subset with a sum from `excess` to `highest`. The result is empty if no subset has
    such a sum; None if too many smaller sums would have to be tried."""
    left, right = _sums_up_to(sizes[::2], highest), _sums_up_to(sizes[1::2], highest)
    if left is None or right is None:
        return None
    found = _lightest_pair(left, right, excess)
    if found is None or found[0] > highest:
        return np.empty(0, np.int64)
    places = np.arange(len(sizes))
    return np.concatenate((chosen(places[::2], found[1]), chosen(places[1::2], found[2])))


def _sums_up_to(sizes: Ints, highest: int) -> Sums | None:
    """Return the distinct subsets with a sum of at most `highest`: their sums, ascending, and their bit
    masks.

    None means that there are too many sums.
    """
    if len(sizes) > _MASK_BITS:
        return None
    sums, masks = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for bit, size in enumerate(sizes.tolist()):
        some = int(np.searchsorted(sums, highest - size, side="right"))
        sums = np.concatenate((sums, sums[:some] + size))
        masks = np.concatenate((masks, masks[:some] | (1 << bit)))
        if len(sums) > _MOST_SUMS:
            return None
        order = np.argsort(sums, kind="stable")
        sums, masks = sums[order], masks[order]
    return sums, masks


def smallest_sums(sizes: Ints, most: int) -> Ints:
    """Return the smallest distinct sums of subsets of `sizes`, at most `most`, ascending from 0."""
    sums = np.zeros(1, np.int64)
    for size in np.sort(sizes).tolist():
        sums = np.unique(np.concatenate((sums, sums + size)))[:most]
    return sums


def _greedy(sizes: Ints, below: Ranks, excess: int) -> tuple[Ranks, int]:
    """Take the heaviest partitions while their sum stays below the excess, and return them and the remaining
    excess.

    Enough load remains for light partitions to cover the remainder closely.
    """
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
    """Return partitions whose sum covers the remaining excess `left` with little surplus.

    The partitions are chosen from the twenty partitions whose size is closest to the remainder. If the
    candidates do not suffice, all free partitions are taken in order.
    """
    reaching = np.flatnonzero(np.cumsum(sizes[free[::-1]]) >= left)
    start = len(free) - 1 - int(reaching[0]) if len(reaching) else 0
    window = free[max(0, min(start, len(free) - _CLOSE)) :][:_CLOSE]
    if int(sizes[window].sum()) >= left:
        return window[_exact_cover(sizes[window], left)]
    total = np.cumsum(sizes[free])
    return free[: int(np.searchsorted(total, left)) + 1]


def _exact_cover(sizes: Ints, excess: int) -> Ranks:
    """Return the subset of partitions with the smallest sum of at least the excess.

    Each half of the partitions is enumerated, and the sums of both halves are combined.
    """
    weights = sizes * _PER_PARTITION + 1
    wanted = excess * _PER_PARTITION
    half = len(sizes) // 2
    found = _lightest_pair(subset_sums(weights[:half]), subset_sums(weights[half:]), wanted)
    assert found is not None, "together they reach the excess"
    places = np.arange(len(sizes))
    return np.concatenate((chosen(places[:half], found[1]), chosen(places[half:], found[2])))


def _lightest_pair(left: Sums, right: Sums, wanted: int) -> tuple[int, int, int] | None:
    """Return the smallest sum of one element of each list that is at least `wanted`, and the two subset
    masks.

    None means that no sum reaches `wanted`.
    """
    partner = np.searchsorted(right[0], wanted - left[0])
    possible = np.flatnonzero(partner < len(right[0]))
    if not len(possible):
        return None
    totals = left[0][possible] + right[0][partner[possible]]
    position = int(totals.argmin())
    best = int(possible[position])
    return int(totals[position]), int(left[1][best]), int(right[1][partner[best]])
