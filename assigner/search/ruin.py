"""Ruin and recreate: empties the worst task and a few others, and repacks their partitions.

Many random orders are packed at once, one per array row. Half of the orders assign each partition to the task
in which the sum of squares grows least, the other half to the fullest task in which the partition fits. The
best packing replaces the group if the sum of squares falls and the worst share does not rise. Random choices
come from a seed, so runs are reproducible. Shares are loads divided by the target of their dimension.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import UNLIMITED, Limits
from assigner.problem.problem import Ints, Ranks
from assigner.search.arrangement import Arrangement

_TRIES: Final = 192
_LARGEST_POOL: Final = 160
_JITTER: Final = 0.25
_NEVER: Final = 1e18

Shares = npt.NDArray[np.float64]


def ruin_and_recreate(
    state: Arrangement, targets: Ints, rounds: int, seed: int, limits: Limits = UNLIMITED
) -> bool:
    """Repack the worst tasks for `rounds` rounds; return True if no task is above int64[D] `targets`."""
    random = np.random.default_rng(seed)
    shares = state.loads / targets
    for _ in range(rounds if state.tasks > 1 else 0):
        worst = int(shares.max(axis=1).argmax())
        if (state.loads[worst] <= targets).all():
            return True
        group = _group(state, worst, shares, random)
        if _repack(state, group, shares[group], targets, random, limits):
            shares[group] = state.loads[group] / targets
    return bool((state.loads <= targets).all())


def _group(state: Arrangement, worst: int, shares: Shares, random: np.random.Generator) -> list[int]:
    """Return the worst task and one to five other tasks; tasks with more room are preferred."""
    wanted = int(random.integers(2, 7))
    order = np.argsort(shares @ shares[worst], kind="stable")
    others = order[order != worst]
    pool = others[: max(8, len(others) // 8)] if random.random() < 0.5 else others
    group, held = [worst], int(state.counts[worst])
    for task in random.permutation(pool)[: wanted - 1].tolist():
        if len(group) == 1 or held + int(state.counts[task]) <= _LARGEST_POOL:
            group.append(task)
            held += int(state.counts[task])
    return group


def _repack(
    state: Arrangement,
    group: list[int],
    shares: Shares,
    targets: Ints,
    random: np.random.Generator,
    limits: Limits,
) -> bool:
    """Repack the partitions of the group and return True if the placement changed.

    The former placement is kept if it was better.
    """
    pool = np.concatenate([state.members(task) for task in group])
    if len(pool) < 2 or len(pool) > 2 * _LARGEST_POOL:
        return False
    tasks, after = _pack_all(state.sizes[pool] / targets, len(group), random, limits)
    highest = after.max(axis=(1, 2))
    squares = np.square(after).sum(axis=(1, 2))
    allowed = (highest <= shares.max()) & (squares < np.square(shares).sum() * (1 - 1e-14))
    if not allowed.any():
        return False
    score = np.where(allowed, np.maximum(highest, 1.0), np.inf)
    best = int(np.lexsort((squares, score))[0])
    _install(state, group, pool, tasks[best])
    return True


def _pack_all(
    sizes: Shares, tasks: int, random: np.random.Generator, limits: Limits
) -> tuple[npt.NDArray[np.int64], Shares]:
    """Pack random orders greedily, one per row: tasks int64[tries, n], shares float64[tries, tasks, D]."""
    count = len(sizes)
    keys = sizes.sum(axis=1) * np.exp(_JITTER * random.standard_normal((_TRIES, count)))
    orders = np.argsort(-keys, axis=1, kind="stable")
    rows = np.arange(_TRIES)
    fitting = (rows % 2 == 1)[:, None]
    shares = np.zeros((_TRIES, tasks, sizes.shape[1]))
    counts = np.zeros((_TRIES, tasks), np.int64)
    chosen = np.empty((_TRIES, count), np.int64)
    for position in range(count):
        items = orders[:, position]
        size = sizes[items][:, None, :]
        score = (shares * size).sum(axis=2) + shares.sum(axis=2) * 1e-9
        fits = fitting & (shares + size <= 1.0).all(axis=2)
        score = np.where(fits, -1.0 - shares.sum(axis=2), score)
        if limits.is_bounded:
            score = np.where(limits.admits(counts), score, _NEVER)
        task = score.argmin(axis=1)
        chosen[rows, items] = task
        shares[rows, task] += size[:, 0]
        counts[rows, task] += 1
    return chosen, shares


def _install(state: Arrangement, group: list[int], pool: Ranks, tasks: npt.NDArray[np.int64]) -> None:
    """Apply the new placement of the group, one pair of tasks after another."""
    goal = np.array(group)[tasks]
    now = state.task_of[pool]
    for giver in group:
        for taker in group:
            moving = pool[(now == giver) & (goal == taker)] if giver != taker else pool[:0]
            if len(moving):
                state.transfer(giver, taker, np.sort(moving))
