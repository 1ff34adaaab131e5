"""Places partitions without a task: heaviest first in the lightest task, then improved by exchanges.

Covers the participating tasks, numbered from 0, and the partitions that are or may be placed there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.problem.problem import Ints, Ranks, TaskOf, moved_units
from assigner.search.arrangement import Arrangement
from assigner.search.chains import ChainGoal, bring_home, shorten
from assigner.search.greedy import assign_lpt, level_tail, tail_start
from assigner.stages.eviction import evict
from assigner.stages.full import PackingInput, lower

_ROUNDS: Final = 3
_MOST_CHAINED: Final = 4_000
_WORK_OF_CHAINS: Final = 3_000_000
_WORK_TO_COME_HOME: Final = 8_000_000


@dataclass(frozen=True, slots=True)
class RepairedPlacement:
    """Placement on the tasks that an attempt may use. `least`: lower bound on the bytes that must move
    between them."""

    state: Arrangement
    stage: str
    least: int = 0


def place_homeless(inputs: PackingInput, placed: TaskOf, homes: TaskOf, tasks: int) -> RepairedPlacement:
    """Place every partition that has no task, moving as few bytes as possible.

    If a task has too little room beside a new partition, the lightest set of its partitions leaves and is
    placed elsewhere. Exchanges are tried only if that fails.
    """
    state = _place_on_lightest(inputs, Arrangement(inputs.sizes, placed, tasks))
    none_kept = np.zeros(len(placed), dtype=bool)
    for _ in range(_ROUNDS):
        above = np.asarray((state.loads > inputs.room).any(axis=1))
        if not above.any():
            break
        leaving = evict(inputs.sizes, state.task_of, none_kept, above, inputs.room, inputs.limits)
        state = _place_on_lightest(inputs, Arrangement(inputs.sizes, leaving.kept, tasks))
    stage = "sticky"
    if not (state.loads <= inputs.room).all():
        stage = "sticky with exchanges"
        lower(state, inputs.room, inputs, frugal=True)
    _undo_needless_moves(inputs, state, homes)
    chained = _by_chains(inputs, placed, state, homes)
    return (
        RepairedPlacement(state, stage) if chained is None else RepairedPlacement(chained, "ejection chains")
    )


def _by_chains(inputs: PackingInput, placed: TaskOf, state: Arrangement, homes: TaskOf) -> Arrangement | None:
    """Return a placement improved by ejection chains; None if they found no improvement.

    The chains start from `state` and from the tightest fit of `placed`. Large problems are not tried, because
    their many light partitions already keep the moves close to the bound.
    """
    if inputs.dimensions != 1 or len(placed) > _MOST_CHAINED or (state.task_of == homes).all():
        return None
    goal = ChainGoal(int(inputs.room[0]), homes, inputs.limits)
    sizes, tasks, best = inputs.sizes[:, 0], state.tasks, state
    for start in (state.task_of, _tightest(inputs, placed, tasks)):
        found = Arrangement(inputs.sizes, shorten(sizes, start, tasks, goal, _WORK_OF_CHAINS), tasks)
        if _rank(inputs, found, homes) < _rank(inputs, best, homes):
            best = found
    if _rank(inputs, best, homes)[:2] == (False, 0):
        work = int(_WORK_TO_COME_HOME * inputs.effort)
        best = Arrangement(inputs.sizes, bring_home(sizes, best.task_of, tasks, goal, work), tasks)
    return best if _rank(inputs, best, homes) < _rank(inputs, state, homes) else None


def _rank(inputs: PackingInput, state: Arrangement, homes: TaskOf) -> tuple[bool, int, int]:
    """Return a key that sorts placements, best first: complete placements within the limits, then the least
    load above capacity, then the fewest moved units."""
    above = int(np.maximum(state.loads - inputs.room, 0).sum())
    complete = bool((state.task_of >= 0).all()) and bool(inputs.limits.allows(state.counts).all())
    return not complete, above, moved_units(inputs.sizes, homes, state.task_of)


def _tightest(inputs: PackingInput, placed: TaskOf, tasks: int) -> TaskOf:
    """Place partitions without a task, each in the fullest task that has room; otherwise they remain without.

    Partitions are placed in descending order of load. Placed partitions stay.
    """
    task_of = placed.copy()
    state = Arrangement(inputs.sizes, placed, tasks)
    room, loads, counts = int(inputs.room[0]), state.loads[:, 0].copy(), state.counts.copy()
    for rank in np.flatnonzero(placed < 0).tolist():
        size = int(inputs.sizes[rank, 0])
        fits = (loads + size <= room) & inputs.limits.admits(counts)
        if fits.any():
            task = int(np.where(fits, loads, -1).argmax())
            task_of[rank] = task
            loads[task] += size
            counts[task] += 1
    return task_of


def _place_on_lightest(inputs: PackingInput, state: Arrangement) -> Arrangement:
    """Place partitions without a task on the lightest task with room, heaviest first.

    The tail is distributed by count.
    """
    homeless = np.flatnonzero(state.task_of < 0)
    if not len(homeless):
        return state
    head = tail_start(inputs.sizes[homeless])
    result = state.task_of.copy()
    loads, counts = state.loads.copy(), state.counts.copy()
    result[homeless[:head]] = _lightest_first(inputs, homeless[:head], loads, counts)
    tail = homeless[head:]
    largest = inputs.sizes[tail].max(axis=0, initial=0)
    full = np.asarray((loads + largest > inputs.room).any(axis=1))
    result[tail] = level_tail(counts, len(tail), full, inputs.limits)
    return Arrangement(inputs.sizes, result, state.tasks)


def _lightest_first(inputs: PackingInput, ranks: Ranks, loads: Ints, counts: Ints) -> TaskOf:
    """Like `assign_lpt`, but avoid tasks without room for the partition while another task has room."""
    if inputs.dimensions == 1:
        return assign_lpt(inputs.sizes, ranks, loads, counts, inputs.room, inputs.limits)
    chosen = np.full(len(ranks), -1, np.int32)
    for position, rank in enumerate(ranks.tolist()):
        size = inputs.sizes[rank]
        growth = (loads / inputs.room) @ (size / inputs.room)
        fits = (loads + size <= inputs.room).all(axis=1)
        open_to = inputs.limits.admits(counts)
        if not open_to.any():
            break
        task = int((growth + np.where(fits, 0.0, 1e9) + np.where(open_to, 0.0, 1e18)).argmin())
        chosen[position] = task
        loads[task] += size
        counts[task] += 1
    return chosen


def _undo_needless_moves(inputs: PackingInput, state: Arrangement, homes: TaskOf) -> None:
    """Undo moves that are unnecessary because the old task has room, heaviest first."""
    for rank in np.flatnonzero((homes >= 0) & (state.task_of != homes)).tolist():
        home, now = int(homes[rank]), int(state.task_of[rank])
        room_left = (state.loads[home] + inputs.sizes[rank] <= inputs.room).all()
        if now >= 0 and room_left and inputs.limits.admits_one(int(state.counts[home])):
            state.transfer(now, home, np.array([rank]))
