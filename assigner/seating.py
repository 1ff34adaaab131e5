"""Seats for homeless partitions: heaviest first on the lightest task, exchanges, and the solver.

Works on the tasks that take part, numbered from 0, and on the partitions that are or may come there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.arrangement import Arrangement
from assigner.exact import fewest_moved, fewest_moved_of_heavy
from assigner.full import Ask, lower
from assigner.packing import level_tail, pour, tail_start
from assigner.problem import Ints, Policy, Ranks, TaskOf
from assigner.shedding import shed

_ROUNDS: Final = 3
_NEAR: Final = 1.001
_HEAVY: Final = 16
_PATIENCE: Final = 2.0
_SAND: Final = 10
"""The solver places heavy partitions alone where there are so many: those that fill more than a tenth of a
task."""


@dataclass(frozen=True, slots=True)
class Seated:
    """`least`: fewest bytes that must move between the open tasks."""

    state: Arrangement
    stage: str
    least: int = 0


def seat(ask: Ask, placed: TaskOf, homes: TaskOf, tasks: int) -> Seated:
    """Seats for the homeless, and as few bytes moved for them as can be.

    Where a newcomer leaves too little room for those who were there, its task sheds the least and
    the shed ones look for seats in turn; exchanges only where that leads to nothing.
    """
    state = _offer_seats(ask, Arrangement(ask.sizes, placed, tasks))
    nobody = np.zeros(len(placed), dtype=bool)
    for _ in range(_ROUNDS):
        above = np.asarray((state.loads > ask.room).any(axis=1))
        if not above.any():
            break
        leaving = shed(ask.sizes, state.task_of, nobody, above, ask.room, ask.cap)
        state = _offer_seats(ask, Arrangement(ask.sizes, leaving.kept, tasks))
    stage = "sticky"
    if not (state.loads <= ask.room).all():
        stage = "sticky with exchanges"
        lower(state, ask.room, ask, frugal=True)
    _send_home(ask, state, homes)
    return Seated(state, stage)


def _offer_seats(ask: Ask, state: Arrangement) -> Arrangement:
    """The homeless to the lightest task with room, heaviest first, the tail by count."""
    homeless = np.flatnonzero(state.task_of < 0)
    if not len(homeless):
        return state
    head = tail_start(ask.sizes[homeless])
    result = state.task_of.copy()
    loads, counts = state.loads.copy(), state.counts.copy()
    result[homeless[:head]] = _lightest_first(ask, homeless[:head], loads, counts)
    tail = homeless[head:]
    largest = ask.sizes[tail].max(axis=0, initial=0)
    full = np.asarray((loads + largest > ask.room).any(axis=1))
    result[tail] = level_tail(counts, len(tail), full, ask.cap)
    return Arrangement(ask.sizes, result, state.tasks)


def _lightest_first(ask: Ask, ranks: Ranks, loads: Ints, counts: Ints) -> TaskOf:
    """As `pour`, but a task whose room a partition would exceed is passed over where another has room."""
    if ask.dimensions == 1:
        return pour(ask.sizes, ranks, loads, counts, ask.room, ask.cap)
    chosen = np.full(len(ranks), -1, np.int32)
    for position, rank in enumerate(ranks.tolist()):
        size = ask.sizes[rank]
        growth = (loads / ask.room) @ (size / ask.room)
        fits = (loads + size <= ask.room).all(axis=1)
        open_to = np.ones(len(counts), dtype=bool) if ask.cap is None else counts < ask.cap
        if not open_to.any():
            break
        task = int((growth + np.where(fits, 0.0, 1e9) + np.where(open_to, 0.0, 1e18)).argmin())
        chosen[position] = task
        loads[task] += size
        counts[task] += 1
    return chosen


def _send_home(ask: Ask, state: Arrangement, homes: TaskOf) -> None:
    """Undo moves that turned out needless: heaviest first, where the old task has room."""
    for rank in np.flatnonzero((homes >= 0) & (state.task_of != homes)).tolist():
        home, now = int(homes[rank]), int(state.task_of[rank])
        room_left = (state.loads[home] + ask.sizes[rank] <= ask.room).all()
        if now >= 0 and room_left and (ask.cap is None or state.counts[home] < ask.cap):
            state.transfer(now, home, np.array([rank]))


def improve(ask: Ask, policy: Policy, seated: Seated, homes: TaskOf, least: int) -> Seated:
    """The solver, where the bound is not met: for the heavy partitions, then for all of a small case."""
    # What carries nothing is in nobody's way unless partitions are counted: then it counts.
    concerned = np.flatnonzero(ask.sizes.any(axis=1) | (ask.cap is not None) | (seated.state.task_of < 0))
    is_small = len(concerned) * seated.state.tasks <= policy.exact_cells
    best = Seated(seated.state, seated.stage, least)
    if not _is_within(ask, best, homes, 1.0 if is_small else _NEAR):
        best = _by_the_heavy(ask, policy, best, homes)
    if is_small and not _is_within(ask, best, homes, 1.0):
        best = _by_all(ask, best, homes, concerned)
    return best


def _by_the_heavy(ask: Ask, policy: Policy, best: Seated, homes: TaskOf) -> Seated:
    """The solver places the heavy partitions, then the light ones find seats as ever."""
    state, tasks = best.state, best.state.tasks
    heavy = int((ask.sizes[:, 0] * _SAND > ask.room[0]).sum())
    if ask.dimensions > 1 or heavy < _HEAVY or heavy == len(ask.sizes) or heavy * tasks > policy.exact_cells:
        return best
    rooms, sizes = np.repeat(ask.room, tasks), ask.sizes[:, 0]
    start = np.where(state.task_of >= 0, state.task_of, homes)
    answer = fewest_moved_of_heavy(sizes, homes, start, rooms, heavy, _PATIENCE * ask.effort, ask.seed)
    least = max(best.least, answer.bound)
    if answer.task_of is None:
        return replace(best, least=least)
    other = seat(ask, answer.task_of, homes, tasks).state
    is_better = not _is_right(ask, state) or _moved(ask, other, homes) < _moved(ask, state, homes)
    if _is_right(ask, other) and is_better:
        return Seated(other, "solver", least)
    return replace(best, least=least)


def _by_all(ask: Ask, best: Seated, homes: TaskOf, concerned: Ranks) -> Seated:
    """The solver places all that are concerned, exactly."""
    state = best.state
    rooms = np.broadcast_to(ask.room, (state.tasks, ask.dimensions))
    incumbent = state.task_of[concerned] if _is_right(ask, state) else None
    sizes = ask.sizes[concerned]
    answer = fewest_moved(sizes, homes[concerned], incumbent, rooms, ask.cap, ask.effort, ask.seed)
    least = max(best.least, answer.bound)
    if answer.task_of is None:
        return replace(best, least=least)
    task_of = state.task_of.copy()
    task_of[concerned] = answer.task_of
    return Seated(Arrangement(ask.sizes, task_of, state.tasks), "solver", least)


def _is_within(ask: Ask, best: Seated, homes: TaskOf, ratio: float) -> bool:
    """Whether all is right, and no more moves than so many times the bound."""
    return _is_right(ask, best.state) and _moved(ask, best.state, homes) <= best.least * ratio


def _moved(ask: Ask, state: Arrangement, homes: TaskOf) -> int:
    return int(ask.sizes[(homes >= 0) & (state.task_of != homes), 0].sum())


def _is_right(ask: Ask, state: Arrangement) -> bool:
    """All are placed, within room and cap."""
    if not bool((state.task_of >= 0).all()) or not bool((state.loads <= ask.room).all()):
        return False
    return ask.cap is None or int(state.counts.max(initial=0)) <= ask.cap
