"""Brings the worst task within its targets in two dimensions, by exchanges with other tasks.

Loads are compared as shares of the target in their dimension; the badness of a task is its larger share. A
step takes the worst task and tries every move and swap of two partitions with a few of the best tasks. All
exchanges of one batch are evaluated in one array operation.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, Ranks
from assigner.search.arrangement import Arrangement

_FEW: Final = 4
_MANY: Final = 24
_SAMPLE: Final = 64
_STEP_WORK: Final = 5_000
_NONE: Final = np.empty(0, np.int64)

Shares = npt.NDArray[np.float64]


class ShareExchange(NamedTuple):
    """Exchange of partitions between the worst task and another task (`partner`).

    Contains the partitions that the worst task gives and gets, and the larger share of the two tasks after
    the exchange.
    """

    worst: float
    partner: int
    given: Ranks
    taken: Ranks


def descend_vectors(state: Arrangement, targets: Ints, work: int, limits: Limits = UNLIMITED) -> bool:
    """Bring every task within the int64[2] `targets` by exchanges; return True on success.

    `work`: maximum number of pairs to examine.
    """
    left = work
    shares = state.loads / targets
    worst_of = shares.max(axis=1)
    while state.tasks > 1 and left > 0:
        worst = int(worst_of.argmax())
        if (state.loads[worst] <= targets).all():
            return True
        best, looked_at = _find_exchange(state, worst, shares, targets, limits)
        left -= looked_at + _STEP_WORK
        if best is None:
            break
        state.transfer(worst, best.partner, best.given, best.taken)
        for task in (worst, best.partner):
            shares[task] = state.loads[task] / targets
            worst_of[task] = shares[task].max()
    return bool((state.loads <= targets).all())


def _find_exchange(
    state: Arrangement, task: int, shares: Shares, targets: Ints, limits: Limits
) -> tuple[ShareExchange | None, int]:
    looked_at = 0
    for partners in _partners(shares, task):
        found, pairs = _best_pair(state, task, partners, shares, targets, limits)
        looked_at += pairs
        if found is not None:
            return found, looked_at
    return None, looked_at


def _partners(shares: Shares, task: int) -> list[Ranks]:
    """Return the tasks with the most room in the dimension in which the worst task is fullest.

    Room in the other dimension counts half.
    """
    binding = int(shares[task].argmax())
    order = np.argsort(shares[:, binding] + 0.5 * shares[:, 1 - binding], kind="stable")
    order = order[order != task]
    lots = [order[:_FEW], order[_FEW:_MANY], order[_MANY : 4 * _MANY]]
    return [lot for lot in lots if len(lot)]


def _best_pair(
    state: Arrangement, task: int, partners: Ranks, shares: Shares, targets: Ints, limits: Limits
) -> tuple[ShareExchange | None, int]:
    """Return the exchange after which the fuller of the two tasks has the lowest share.

    None means that no exchange lowers the larger share.
    """
    own = _sample(state.members(task))
    theirs = [_sample(state.members(partner)) for partner in partners.tolist()]
    back = np.concatenate([part for members in theirs for part in (_MINUS_ONE, members)])
    owner = np.repeat(np.arange(len(partners)), [len(members) + 1 for members in theirs])
    give = np.concatenate((own, _MINUS_ONE))
    given = np.where((give >= 0)[:, None], state.sizes[give], 0) / targets
    taken = np.where((back >= 0)[:, None], state.sizes[back], 0) / targets
    mine, other = shares[task], shares[partners][owner]
    worst = np.zeros((len(give), len(back)))
    for dimension in range(shares.shape[1]):
        change = given[:, dimension, None] - taken[None, :, dimension]
        np.maximum(worst, mine[dimension] - change, out=worst)
        np.maximum(worst, other[None, :, dimension] + change, out=worst)
    if limits.is_bounded:
        full = ~limits.admits(state.counts[partners][owner]) & (back < 0)
        worst[:, full] = np.inf
        if not limits.admits_one(int(state.counts[task])):
            worst[-1, :] = np.inf
    position = int(worst.argmin())
    row, column = divmod(position, len(back))
    if worst[row, column] >= mine.max() - 1e-12:
        return None, worst.size
    return (
        ShareExchange(
            float(worst[row, column]),
            int(partners[owner[column]]),
            give[row : row + 1] if give[row] >= 0 else _NONE,
            back[column : column + 1] if back[column] >= 0 else _NONE,
        ),
        worst.size,
    )


_MINUS_ONE: Final = np.array([-1], np.int64)


def _sample(ranks: Ranks) -> Ranks:
    if len(ranks) <= _SAMPLE:
        return ranks
    return ranks[np.linspace(0, len(ranks) - 1, _SAMPLE).astype(np.int64)]
