"""Seats for homeless partitions: heaviest first on the lightest task, and exchanges.

Works on the tasks that take part, numbered from 0, and on the partitions that are or may come there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.arrangement import Arrangement
from assigner.full import Ask, lower
from assigner.packing import level_tail, pour, tail_start
from assigner.problem import Ints, Ranks, TaskOf
from assigner.shedding import shed

_ROUNDS: Final = 3


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
