"""The cheapest way to take enough off one task: a subset of its partitions, as light as possible."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from assigner.bounds.subsets import chosen, subset_sums
from assigner.problem.problem import Ints, Ranks

_EXACT: Final = 32
"""Partitions of one task whose subsets are all tried, in two halves: 2 * 2 ** 16 sums."""
_QUICK: Final = 22
_CLOSE: Final = 20
_PER_PARTITION: Final = 64
"""Sizes are multiplied by this and 1 is added, so that among equal sums fewer partitions win."""
NEGLIGIBLE_UNITS: Final = 16
"""A cover this many units above the excess is good enough: the search for a lighter one ends."""
_TRIES: Final = 8
_MOST_SUMS: Final = 2**17
_MASK_BITS: Final = 62

Sums = tuple[Ints, Ints]
"""Sums of subsets, ascending, and the subsets as bit masks."""


class SearchDepth(Enum):
    """How many subsets of a task's partitions are looked at."""

    QUICK = "all of up to 22 partitions"
    USUAL = "all of up to 32 partitions"
    THOROUGH = "all of up to 32 partitions, and of more until no other is much nearer"


@dataclass(frozen=True, slots=True)
class Cover:
    """`taken`: what leaves. `least`: no subset that relieves enough is lighter than this."""

    taken: Ranks
    least: int


def cheapest_cover(
    ranks: Ranks, sizes: Ints, excess: int, depth: SearchDepth = SearchDepth.THOROUGH
) -> Cover:
    """The lightest subset of the partitions whose loads sum to at least `excess`, then the smallest.

    `ranks`: int64[k], `sizes`: int64[k] of them, descending; together they must reach the excess.
    Exact for up to 32 partitions below the excess (22 when quick), and for more when thorough, where the
    subsets that come into question can be counted; else close, and `least` is the excess itself.
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
    """A cover lighter than `found` units, None when none was found; and whether there is no lighter one.

    Where many subsets are near the excess, some 32 partitions about half of which are needed nearly
    always have one that meets it; where few are, those that stay below `found` can all be tried.
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
    """The heaviest of the others until half of what the window has is left, then the window exactly."""
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
    """The lightest subset from `excess` to `highest`: empty: there is none; None: too many are below."""
    one, two = _sums_up_to(sizes[::2], highest), _sums_up_to(sizes[1::2], highest)
    if one is None or two is None:
        return None
    found = _lightest_pair(one, two, excess)
    if found is None or found[0] > highest:
        return np.empty(0, np.int64)
    places = np.arange(len(sizes))
    return np.concatenate((chosen(places[::2], found[1]), chosen(places[1::2], found[2])))


def _sums_up_to(sizes: Ints, highest: int) -> Sums | None:
    """Subset sums up to `highest`, ascending, and the subsets as bit masks; None when there are too many."""
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
    """The smallest different sums that subsets of `sizes` have, at most `most`, ascending from 0."""
    sums = np.zeros(1, np.int64)
    for size in np.sort(sizes).tolist():
        sums = np.unique(np.concatenate((sums, sums + size)))[:most]
    return sums


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
    found = _lightest_pair(subset_sums(weights[:half]), subset_sums(weights[half:]), wanted)
    assert found is not None, "together they reach the excess"
    places = np.arange(len(sizes))
    return np.concatenate((chosen(places[:half], found[1]), chosen(places[half:], found[2])))


def _lightest_pair(one: Sums, two: Sums, wanted: int) -> tuple[int, int, int] | None:
    """The smallest sum of one of each that reaches what is wanted, and their masks; None: none does."""
    partner = np.searchsorted(two[0], wanted - one[0])
    possible = np.flatnonzero(partner < len(two[0]))
    if not len(possible):
        return None
    totals = one[0][possible] + two[0][partner[possible]]
    position = int(totals.argmin())
    best = int(possible[position])
    return int(totals[position]), int(one[1][best]), int(two[1][partner[best]])
