"""The solver, where seats were found but not proved to move the fewest bytes.

Where few partitions carry most, it places those and takes the others for sand, which goes anywhere by the
unit. Then the sand is settled: of each task that is too full the lightest subset leaves, which may be more
than the solver took. What it learns from that, it is asked again with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from assigner.arrangement import Arrangement
from assigner.covers import NO_MATTER, Cover, cheapest_cover, smallest_sums
from assigner.exact import fewest_moved, fewest_moved_of_heavy
from assigner.full import Ask
from assigner.problem import UNITS, Ints, Policy, Ranks, TaskOf, moved_units
from assigner.seating import Seated, seat

_NEAR: Final = 1.001
_SAND: Final = 10
"""Heavy partitions are those that fill more than a tenth of a task."""
_FEW_CELLS: Final = 4
"""Up to this part of `exact_cells` the solver is asked to the last unit, beyond where `_NEAR` is not met."""
_NEXT_TO_NOTHING: Final = UNITS - 1
"""Less than a byte a second: the heavy are not placed again for it."""
_SUMS: Final = 4_000
_LARGEST_SUM: Final = 2**50

Ranges = list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Patience:
    """How often the solver is asked for the heavy, how long at a time and in all (deterministic seconds).

    Mostly it needs about one, sometimes many times that: then another seed is the shorter way.
    """

    rounds: int
    each: float
    in_all: float


_AT_FIRST: Final = _Patience(2, 1.2, 2.0)
_FOR_ALL: Final = 1.5
_IN_THE_END: Final = _Patience(5, 1.6, 5.0)


def improve(ask: Ask, policy: Policy, seated: Seated, homes: TaskOf, least: int) -> Seated:
    """The solver, where the bound is not met: for the heavy partitions, and for all of a small case."""
    # What carries nothing is in nobody's way unless partitions are counted: then it counts.
    concerned = np.flatnonzero(ask.sizes.any(axis=1) | (ask.cap is not None) | (seated.state.task_of < 0))
    tasks = seated.state.tasks
    best = Seated(seated.state, seated.stage, least)
    heavy = int((ask.sizes[:, 0] * _SAND > ask.room[0]).sum())
    cells = heavy * tasks
    by_heavy = _has_sand(ask, heavy) and cells <= policy.exact_cells
    sand = _Sand(ask.sizes[:, 0], homes, heavy)
    if len(concerned) * tasks <= policy.exact_cells:
        if by_heavy and not _is_within(ask, best, homes, 1.0):
            best = _by_the_heavy(ask, best, homes, sand, _AT_FIRST)
        if not _is_within(ask, best, homes, 1.0):
            best = _by_all(ask, best, homes, concerned)
    near = 1.0 if cells * _FEW_CELLS <= policy.exact_cells else _NEAR
    if by_heavy and not _is_within(ask, best, homes, near, _NEXT_TO_NOTHING):
        best = _by_the_heavy(ask, best, homes, sand, _IN_THE_END)
    return best


def _has_sand(ask: Ask, heavy: int) -> bool:
    return ask.dimensions == 1 and 0 < heavy < len(ask.sizes) and int(ask.sizes.sum()) <= _LARGEST_SUM


def _by_the_heavy(ask: Ask, best: Seated, homes: TaskOf, sand: _Sand, patience: _Patience) -> Seated:
    """The solver places the heavy partitions and the sand is settled, until the one fits the other."""
    tasks, sizes = best.state.tasks, ask.sizes[:, 0]
    rooms, left = np.repeat(ask.room, tasks), patience.in_all * ask.effort
    seed = ask.seed
    for _ in range(patience.rounds):
        effort = min(patience.each * ask.effort, left)
        answer = fewest_moved_of_heavy(sizes, homes, rooms, sand.heavy, sand.staying, effort, seed)
        best = replace(best, least=max(best.least, answer.bound))
        left -= answer.work
        if answer.task_of is not None:
            settled = _settle(ask, answer.task_of, homes, sand.heavy, tasks)
            best = _better(ask, best, settled.state, homes)
        if left <= 0 or _is_within(ask, best, homes, 1.0, _NEXT_TO_NOTHING):
            break
        if not answer.proved:
            seed += 1
        elif answer.task_of is None or not sand.learn(settled.gifts):
            break
    return best


@dataclass(frozen=True, slots=True)
class _Gift:
    """What a task gives away of its sand, because it is so much too full."""

    excess: int
    cover: Cover
    given: int


@dataclass(frozen=True, slots=True)
class _Settled:
    state: Arrangement
    gifts: Mapping[int, _Gift]


def _settle(ask: Ask, placed: TaskOf, homes: TaskOf, heavy: int, tasks: int) -> _Settled:
    """With the heavy partitions where they are, the lightest sand leaves and finds seats as ever."""
    sizes, task_of = ask.sizes[:, 0], placed.copy()
    above = Arrangement(ask.sizes, placed, tasks).loads[:, 0] - int(ask.room[0])
    gifts = {}
    for task in np.flatnonzero(above > 0).tolist():
        own = heavy + np.flatnonzero(placed[heavy:] == task)
        cover = cheapest_cover(own, sizes[own], int(above[task]))
        gifts[task] = _Gift(int(above[task]), cover, int(sizes[cover.taken].sum()))
        task_of[cover.taken] = -1
    return _Settled(seat(ask, task_of, homes, tasks).state, gifts)


class _Sand:
    """All but the `heavy` first partitions.

    `staying`: by task, the sums (first to last, units) of its own sand that can stay, where that is known.
    """

    def __init__(self, sizes: Ints, homes: TaskOf, heavy: int) -> None:
        self._sizes, self._homes, self.heavy = sizes, homes, heavy
        self.staying: dict[int, Ranges] = {}

    def learn(self, gifts: Mapping[int, _Gift]) -> bool:
        """From tasks that give more than the solver took; whether there was anything to learn."""
        before = dict(self.staying)
        for task, gift in gifts.items():
            if gift.given <= gift.excess + NO_MATTER:
                continue
            sizes = self._own(task)
            ranges = self.staying.get(task) or _sums(sizes)
            if gift.cover.least == gift.given:
                whole = int(sizes.sum())
                ranges = _without(ranges, whole - gift.given, whole - gift.excess)
            self.staying[task] = ranges
        return self.staying != before

    def _own(self, task: int) -> Ints:
        sizes = self._sizes[self.heavy :][self._homes[self.heavy :] == task]
        return np.asarray(sizes[sizes > 0])


def _sums(sizes: Ints) -> Ranges:
    """The sums of subsets: the smallest and the largest exactly, between them all there might be."""
    whole = int(sizes.sum())
    small = smallest_sums(sizes, _SUMS)
    large = whole - small[::-1]
    single = np.unique(np.concatenate((small, large))).tolist()
    ranges = [(value, value) for value in single]
    if len(small) == _SUMS and small[-1] < large[0]:
        ranges.append((int(small[-1]), int(large[0])))
    return sorted(ranges)


def _without(ranges: Ranges, below: int, above: int) -> Ranges:
    """The ranges without what lies strictly above `below` and up to `above`."""
    kept = [(first, min(last, below)) for first, last in ranges if first <= below]
    return kept + [(max(first, above + 1), last) for first, last in ranges if last > above]


def _better(ask: Ask, best: Seated, other: Arrangement, homes: TaskOf) -> Seated:
    if not _is_right(ask, other):
        return best
    moved = moved_units(ask.sizes, homes, other.task_of)
    if _is_right(ask, best.state) and moved_units(ask.sizes, homes, best.state.task_of) <= moved:
        return best
    return Seated(other, "solver", best.least)


def _by_all(ask: Ask, best: Seated, homes: TaskOf, concerned: Ranks) -> Seated:
    """The solver places all that are concerned, exactly."""
    state = best.state
    rooms = np.broadcast_to(ask.room, (state.tasks, ask.dimensions))
    incumbent = state.task_of[concerned] if _is_right(ask, state) else None
    sizes = ask.sizes[concerned]
    effort = _FOR_ALL * ask.effort
    answer = fewest_moved(sizes, homes[concerned], incumbent, rooms, ask.cap, effort, ask.seed)
    least = max(best.least, answer.bound)
    if answer.task_of is None:
        return replace(best, least=least)
    task_of = state.task_of.copy()
    task_of[concerned] = answer.task_of
    return Seated(Arrangement(ask.sizes, task_of, state.tasks), "solver", least)


def _is_within(ask: Ask, best: Seated, homes: TaskOf, ratio: float, units: int = 0) -> bool:
    """Whether all is right, and no more moves than so many times the bound and so many units."""
    moved = moved_units(ask.sizes, homes, best.state.task_of)
    return _is_right(ask, best.state) and moved <= best.least * ratio + units


def _is_right(ask: Ask, state: Arrangement) -> bool:
    """All are placed, within room and cap."""
    if not bool((state.task_of >= 0).all()) or not bool((state.loads <= ask.room).all()):
        return False
    return ask.cap is None or int(state.counts.max(initial=0)) <= ask.cap
