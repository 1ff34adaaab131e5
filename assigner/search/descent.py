"""Reduces the fullest task to a target load in one dimension, by exchanges with lighter tasks.

A step takes the fullest task and tries moves of one partition, and swaps of two partitions, with the lightest
tasks. The exchange with the lowest maximum of the pair is chosen. If no exchange lowers that maximum, the
step searches for the best exchange of two subsets. Every step lowers the larger of the two loads, so the
maximum never rises.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from assigner.bounds.subsets import chosen, subset_sums
from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, Ranks
from assigner.search.arrangement import Arrangement

_FEW: Final = 8
_MANY: Final = 64
_SCAN: Final = 20_000
"""Maximum number of partitions examined in one step."""
_STEP_WORK: Final = 3_000
"""Fixed cost of a step, in examined partitions."""
_SUBSET: Final = 11
"""Number of partitions of one task for which all subsets are tried: 2 ** 11 sums per task."""

_NONE: Final = np.empty(0, np.int64)


class PartitionExchange(NamedTuple):
    """Exchange of partitions between the fullest task and a lighter task (`partner`).

    Contains the partitions that the fullest task gives and gets, and the larger load of the two tasks after
    the exchange.
    """

    higher: int
    partner: int
    given: Ranks
    taken: Ranks


class DescentGoal(NamedTuple):
    """Target load that no task should exceed, and further limits of a task.

    `frugal`: among the exchanges that reach the target, prefer fewer moved bytes. If no exchange reaches the
    target, prefer small changes of load, which keep large gaps in light tasks available.
    """

    target: int
    limits: Limits = UNLIMITED
    frugal: bool = False


def descend(state: Arrangement, goal: DescentGoal, work: int) -> bool:
    """Reduce every task of a one-dimensional arrangement to the target; return True on success.

    `work`: maximum number of partitions to examine; about ten million take a second. The limit is not a time,
    so that equal input gives equal results.
    """
    loads = state.loads[:, 0]
    left = work
    while state.tasks > 1 and left > 0:
        fullest = int(loads.argmax())
        if loads[fullest] <= goal.target:
            return True
        best, looked_at = find_exchange(state, fullest, goal)
        left -= looked_at + _STEP_WORK
        if best is None:
            break
        state.transfer(fullest, best.partner, best.given, best.taken)
    return bool(loads.max(initial=0) <= goal.target)


def find_exchange(state: Arrangement, task: int, goal: DescentGoal) -> tuple[PartitionExchange | None, int]:
    """Return the best exchange of partitions between `task` and a light task, and the number of partitions
    examined.

    The best exchange lowers the larger load of the pair most. None means that no exchange lowers it.
    """
    looked_at = 0
    loads = state.loads[:, 0]
    excess, room = int(loads[task]) - goal.target, goal.target - int(loads.min())
    best: PartitionExchange | None = None
    for partners in _partners(state, task):
        found = _best_swap(state, task, partners, goal)
        looked_at += int(state.counts[partners].sum())
        if found is not None and (best is None or found.higher < best.higher):
            best = found
        if best is not None and (best.higher <= goal.target or excess > room):
            break
    if best is None:
        best = _best_subsets(state, task, goal.limits)
        looked_at += _FEW * 2**_SUBSET
    return best, looked_at


def _partners(state: Arrangement, task: int) -> Iterator[Ranks]:
    """Yield the lightest tasks as candidates for an exchange, in three batches of increasing size."""
    loads = state.loads[:, 0]
    first = np.argpartition(loads, _FEW)[: _FEW + 1] if len(loads) > _FEW + 1 else np.arange(len(loads))
    first = first[np.lexsort((first, loads[first]))]
    yield first[first != task][:_FEW]
    order = np.argsort(loads, kind="stable")
    order = order[order != task]
    most = _MANY + int(np.searchsorted(np.cumsum(state.counts[order[_MANY:]]), _SCAN))
    for lot in (order[_FEW:_MANY], order[_MANY:most]):
        if len(lot):
            yield lot


def _best_swap(state: Arrangement, task: int, partners: Ranks, goal: DescentGoal) -> PartitionExchange | None:
    """Return the best exchange of one partition of `task` for one partition of any candidate task.

    For each partition that the partner could give, the best partition to give in return is considered.
    Exchanges that bring both tasks to the target are preferred, then exchanges that fill the partner, then
    the exchange that levels the pair best.
    """
    own = state.members(task)
    if not len(own) or not len(partners):
        return None
    sizes = state.sizes[:, 0]
    ascending = sizes[own[::-1]]
    theirs = [state.members(partner) for partner in partners.tolist()]
    back = np.concatenate([part for members in theirs for part in (_MINUS_ONE, members)])
    owner = np.repeat(np.arange(len(partners)), [len(members) + 1 for members in theirs])
    back_sizes = np.where(back >= 0, sizes[back], 0)
    mine, other = int(state.loads[task, 0]), state.loads[partners, 0][owner]
    if goal.limits.is_bounded:
        full = ~goal.limits.admits(state.counts[partners][owner]) & (back < 0)
        other = np.where(full, mine, other)
    best = (
        _smallest_relief(ascending, back_sizes, mine, other, goal)
        or _best_filling(ascending, back_sizes, mine, other, goal.target)
        or _best_levelling(ascending, back_sizes, mine, other)
    )
    if best is None:
        return None
    higher, position, give = best
    given = own[::-1][give : give + 1]
    taken = back[position : position + 1] if back[position] >= 0 else _NONE
    return PartitionExchange(higher, int(partners[owner[position]]), given, taken)


def _smallest_relief(
    ascending: Ints, back_sizes: Ints, mine: int, other: Ints, goal: DescentGoal
) -> tuple[int, int, int] | None:
    """Return the smallest exchange that brings both tasks within the target: (larger load after, position in
    back_sizes, position in ascending). None if no exchange does."""
    give = np.searchsorted(ascending, back_sizes + (mine - goal.target))
    possible = np.flatnonzero(give < len(ascending))
    change = ascending[give[possible]] - back_sizes[possible]
    fits = other[possible] + change <= goal.target
    if not fits.any():
        return None
    price = change + 2 * back_sizes[possible] if goal.frugal else change
    chosen = int(np.where(fits, price, _FAR).argmin())
    position = int(possible[chosen])
    after = int(change[chosen])
    return max(mine - after, int(other[position]) + after), position, int(give[position])


def _best_filling(
    ascending: Ints, back_sizes: Ints, mine: int, other: Ints, target: int
) -> tuple[int, int, int] | None:
    """Return the exchange that relieves the task most and keeps the partner within the target.

    None means that every exchange fills less than half of the partner's room.
    """
    give = np.searchsorted(ascending, back_sizes + (target - other), side="right") - 1
    change = np.where(give >= 0, ascending[give] - back_sizes, 0)
    position = int(change.argmax())
    best = int(change[position])
    if best <= 0 or 2 * best < target - int(other.min()) or best > mine - target:
        return None
    return max(mine - best, int(other[position]) + best), position, int(give[position])


def _best_levelling(ascending: Ints, back_sizes: Ints, mine: int, other: Ints) -> tuple[int, int, int] | None:
    wanted = np.searchsorted(ascending, back_sizes + (mine - other) // 2)
    best: tuple[int, int, int] | None = None
    for give in (np.minimum(wanted, len(ascending) - 1), np.maximum(wanted - 1, 0)):
        change = ascending[give] - back_sizes
        higher = np.maximum(mine - change, other + change)
        position = int(higher.argmin())
        if best is None or higher[position] < best[0]:
            best = int(higher[position]), position, int(give[position])
    return best if best is not None and best[0] < mine else None


_FAR: Final = np.int64(2**62)
_MINUS_ONE: Final = np.array([-1], np.int64)


def _best_subsets(state: Arrangement, task: int, limits: Limits) -> PartitionExchange | None:
    loads = state.loads[:, 0]
    before = int(loads[task])
    best: PartitionExchange | None = None
    for partner in next(_partners(state, task)).tolist():
        found = best_subset_exchange(state, task, partner, limits)
        if found is not None and found.higher < (before if best is None else best.higher):
            best = found
    return best


def best_subset_exchange(
    state: Arrangement, task: int, partner: int, limits: Limits
) -> PartitionExchange | None:
    """Return the exchange of two sets of partitions that brings the loads of two tasks closest to each other.

    Each subset contains at most 11 partitions of a task.
    """
    gap = int(state.loads[task, 0] - state.loads[partner, 0])
    own, theirs = _sample(state.members(task)), _sample(state.members(partner))
    own_sums, own_masks = subset_sums(state.sizes[own, 0])
    their_sums, their_masks = subset_sums(state.sizes[theirs, 0])
    wanted = np.searchsorted(own_sums, their_sums + gap // 2)
    best: tuple[int, int, int] | None = None
    for give in (np.minimum(wanted, len(own_sums) - 1), np.maximum(wanted - 1, 0)):
        change = own_sums[give] - their_sums
        higher = np.maximum(gap - change, change)
        if limits.is_bounded:
            grown = np.bitwise_count(own_masks[give]).astype(np.int64) - np.bitwise_count(their_masks)
            fits = limits.allows(state.counts[partner] + grown) & limits.allows(state.counts[task] - grown)
            higher = np.where(fits, higher, gap)
        position = int(higher.argmin())
        if best is None or higher[position] < best[0]:
            best = int(higher[position]), int(own_masks[give[position]]), int(their_masks[position])
    if best is None or best[0] >= gap:
        return None
    return PartitionExchange(
        best[0] + int(state.loads[partner, 0]), partner, chosen(own, best[1]), chosen(theirs, best[2])
    )


def _sample(ranks: Ranks) -> Ranks:
    """Return at most 11 of a task's partitions: the heaviest, and others of all sizes."""
    if len(ranks) <= _SUBSET:
        return ranks
    return ranks[np.linspace(0, len(ranks) - 1, _SUBSET).astype(np.int64)]
