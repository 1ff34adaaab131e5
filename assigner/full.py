"""Full assignment: the fewest tasks in which everything fits, then the lowest maximum.

At a given number of tasks: heaviest first with a levelled tail, descent, and rounds of ruin and
recreate; in one dimension also best fit decreasing as another start, and column generation where
partitions are large against a task; the solver for small proofs. With two dimensions a task is as
full as its larger share. Every arrangement that comes back respects `cap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from assigner.arrangement import Arrangement
from assigner.balance import Aim, descend
from assigner.bounds import load_bound, task_bound
from assigner.columns import Found, generate_and_dive, is_affordable
from assigner.exact import fits, lowest_maximum
from assigner.packing import best_fit, level_tail, pour, tail_start
from assigner.problem import Ints, TaskOf
from assigner.ruin import ruin_and_recreate
from assigner.vectors import descend_vectors

FINE: Final = (1e-4, 1e-3)
"""A full placement is levelled to within this share of the best possible maximum, by dimensions."""

_WORK: Final = (12_000_000, 100_000_000)
_RUIN_ROUNDS: Final = 5
_RUIN_STEPS: Final = 150
_SINGLE_STEPS: Final = 4
_PROOF_CELLS: Final = 1_000
_EXACT_CELLS: Final = 250
_REFINED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Ask:
    """What every attempt shares. `sizes`: int64[n, D] by rank, none above int64[D] `room`."""

    sizes: Ints
    room: Ints
    cap: int | None
    effort: float
    seed: int

    @property
    def dimensions(self) -> int:
        """1 or 2."""
        return len(self.room)


@dataclass(frozen=True, slots=True)
class Packed:
    """Partitions on tasks, and the stage that found it. `bound`: no answer has fewer tasks."""

    task_of: TaskOf
    tasks: int
    bound: int
    stage: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """`task_of`: None when nothing fitted. `bound`: tasks that are needed at least, 0 if not known."""

    task_of: TaskOf | None
    stage: str = ""
    bound: int = 0


def fewest_tasks(ask: Ask) -> Packed:
    """As few tasks as are found in which every load fits.

    Always ends: with as many tasks as partitions everything fits.
    """
    bound = max(task_bound(ask.sizes, ask.room, ask.cap), 1)
    tasks = bound
    tried = 0
    while True:
        found = attempt_at(ask, tasks)
        if found.task_of is not None:
            return Packed(found.task_of, tasks, bound, found.stage)
        bound = max(bound, found.bound)
        tried += 1
        tasks = max(bound, tasks + (1 if tried <= _SINGLE_STEPS else max(1, tasks // 200)))


def attempt_at(ask: Ask, tasks: int) -> Attempt:
    """Better and dearer ways to fit everything into exactly so many tasks, until one does."""
    goal = goal_at(ask, tasks)
    state = level(ask, tasks, goal, tail_start(ask.sizes))
    if not fits_all(state, ask) and (goal == ask.room).all():
        state = level(ask, tasks, goal, int(np.count_nonzero(ask.sizes.any(axis=1))))
    if fits_all(state, ask):
        return Attempt(state.task_of, "descent")
    if ask.dimensions == 2:
        return _search(ask, tasks, [state], 0)
    other = _fitted(ask, tasks)
    if lower(other, ask.room, ask):
        return Attempt(other.task_of, "best fit")
    found = Found(None, 0)
    if is_affordable(len(ask.sizes), tasks):
        found = generate_and_dive(ask.sizes[:, 0], int(ask.room[0]), ask.cap, tasks, ask.effort)
        if found.task_of is not None or found.bound > tasks:
            return Attempt(found.task_of, "column generation", found.bound)
    return _search(ask, tasks, [other, state], found.bound)


def _search(ask: Ask, tasks: int, starts: list[Arrangement], bound: int) -> Attempt:
    for start in starts:
        if refine(start, ask, ask.room):
            return Attempt(start.task_of, "ruin and recreate")
    if len(ask.sizes) * tasks <= _PROOF_CELLS:
        answer = fits(ask.sizes, tasks, ask.room, ask.cap, ask.effort, ask.seed)
        if answer.task_of is not None:
            return Attempt(answer.task_of, "solver", bound)
        return Attempt(None, bound=tasks + 1 if answer.proved else bound)
    return Attempt(None, bound=bound)


def goal_at(ask: Ask, tasks: int) -> Ints:
    """What a full placement is levelled to: the best possible share and a little; above room if it must."""
    lowest = lowest_loads(ask.sizes, tasks)
    share = float((lowest / ask.room).max()) * (1 + FINE[ask.dimensions - 1])
    goal = np.floor(ask.room * share).astype(np.int64)
    fitting = np.where((lowest <= ask.room).all(), np.minimum(goal, ask.room), goal)
    return np.asarray(np.maximum(fitting, lowest).clip(1))


def lowest_loads(sizes: Ints, tasks: int) -> Ints:
    """By dimension, the smallest possible load of the fullest task: int64[D]."""
    return np.array([load_bound(sizes[:, d], tasks) for d in range(sizes.shape[1])], np.int64)


def level(ask: Ask, tasks: int, goal: Ints, head: int) -> Arrangement:
    """The first `head` ranks on the lightest task each, the tail by count, then descent to the goal."""
    task_of = np.full(len(ask.sizes), -1, np.int32)
    loads, counts = np.zeros((tasks, ask.dimensions), np.int64), np.zeros(tasks, np.int64)
    task_of[:head] = pour(ask.sizes, np.arange(head), loads, counts, ask.room, ask.cap)
    full = np.asarray((loads >= goal).any(axis=1))
    task_of[head:] = level_tail(counts, len(task_of) - head, full, ask.cap)
    state = Arrangement(ask.sizes, task_of, tasks)
    lower(state, goal, ask)
    return state


def settle(ask: Ask, task_of: TaskOf, tasks: int) -> Arrangement:
    """Lower the maximum of a placement; small cases to the proved minimum."""
    goal = goal_at(ask, tasks)
    state = Arrangement(ask.sizes, task_of, tasks)
    if lower(state, goal, ask) or (len(task_of) <= _REFINED and refine(state, ask, goal)):
        return state
    if ask.dimensions == 1 and len(task_of) * tasks <= _EXACT_CELLS:
        sizes = ask.sizes[:, 0]
        answer = lowest_maximum(sizes, state.task_of, tasks, ask.cap, ask.effort, ask.seed)
        if answer.task_of is not None:
            return Arrangement(ask.sizes, answer.task_of, tasks)
    return state


def lower(state: Arrangement, goal: Ints, ask: Ask, *, frugal: bool = False) -> bool:
    """Descent in one or two dimensions; True when the goal is reached. `frugal`: as in `Aim`."""
    work = int(_WORK[ask.dimensions - 1] * ask.effort)
    if ask.dimensions == 1:
        return descend(state, Aim(int(goal[0]), ask.cap, frugal), work)
    return descend_vectors(state, goal, work, ask.cap)


def refine(state: Arrangement, ask: Ask, goal: Ints) -> bool:
    """Ruin and recreate, and descent, in turns; True when the goal is reached."""
    rounds = int(min(40 + 2 * state.tasks, _RUIN_STEPS) * ask.effort)
    for turn in range(_RUIN_ROUNDS):
        before = (state.loads / goal).max(initial=0)
        if before <= 1:
            return True
        ruin_and_recreate(state, goal, rounds, ask.seed + turn, ask.cap)
        lower(state, goal, ask)
        if turn and (state.loads / goal).max(initial=0) == before:
            break
    return bool((state.loads <= goal).all())


def fits_all(state: Arrangement, ask: Ask) -> bool:
    """No task is above the room."""
    return bool((state.loads <= ask.room).all())


def _fitted(ask: Ask, tasks: int) -> Arrangement:
    """Best fit decreasing; what fits nowhere goes to the lightest tasks."""
    task_of = best_fit(ask.sizes[:, 0], int(ask.room[0]), tasks, ask.cap)
    state = Arrangement(ask.sizes, task_of, tasks)
    left = np.flatnonzero(task_of < 0)
    task_of[left] = pour(ask.sizes, left, state.loads, state.counts, ask.room, ask.cap)
    return Arrangement(ask.sizes, task_of, tasks)
