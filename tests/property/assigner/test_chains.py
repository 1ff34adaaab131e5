"""Chains for any placement: they respect room and limits, lose no partition and never move more bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints, TaskOf
from assigner.search.chains import ChainGoal, bring_home, shorten

_WORK = 300_000
_MOST_TASKS = 6


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Ints, TaskOf, ChainGoal]:
    """Draw sizes, a placement (some above the room or without a task), and the home of each partition."""
    count = draw(st.integers(1, 14))
    sizes = np.sort(np.array(draw(st.lists(st.integers(0, 50), min_size=count, max_size=count)), np.int64))[
        ::-1
    ]
    tasks = st.lists(st.integers(-1, _MOST_TASKS - 1), min_size=count, max_size=count)
    placed, homes = np.array(draw(tasks), np.int32), np.array(draw(tasks), np.int32)
    limits = Limits(draw(st.none() | st.integers(1, 5)))
    return sizes, placed, ChainGoal(draw(st.integers(20, 120)), homes, limits)


def _loads(sizes: Ints, task_of: TaskOf) -> Ints:
    placed = task_of >= 0
    return np.bincount(task_of[placed], weights=sizes[placed], minlength=_MOST_TASKS).astype(np.int64)


def _away(sizes: Ints, task_of: TaskOf, homes: TaskOf) -> int:
    return int(sizes[(homes >= 0) & (task_of != homes)].sum())


@given(_cases())
def test_every_chain_is_for_the_better_and_breaks_no_limit(case: tuple[Ints, TaskOf, ChainGoal]) -> None:
    sizes, placed, goal = case
    found = shorten(sizes, placed, _MOST_TASKS, goal, _WORK)
    assert (found[placed >= 0] >= 0).all()
    _check(sizes, placed, found, goal)
    assert np.array_equal(found, shorten(sizes, placed, _MOST_TASKS, goal, _WORK))


@given(_cases())
def test_who_is_forced_home_leaves_nobody_without_a_task(case: tuple[Ints, TaskOf, ChainGoal]) -> None:
    sizes, placed, goal = case
    placed = np.maximum(placed, 0)
    found = bring_home(sizes, placed, _MOST_TASKS, goal, _WORK)
    assert (found >= 0).all()
    _check(sizes, placed, found, goal)
    assert np.array_equal(found, bring_home(sizes, placed, _MOST_TASKS, goal, _WORK))


def _check(sizes: Ints, placed: TaskOf, found: TaskOf, goal: ChainGoal) -> None:
    """Check that no load exceeds both room and old value, and moved bytes grow only if more are placed."""
    assert (_loads(sizes, found) <= np.maximum(_loads(sizes, placed), goal.room)).all()
    before = np.bincount(placed[placed >= 0], minlength=_MOST_TASKS)
    counts = np.bincount(found[found >= 0], minlength=_MOST_TASKS)
    assert (goal.limits.allows(counts) | (counts <= before)).all()
    if np.count_nonzero(placed < 0) == np.count_nonzero(found < 0):
        assert _away(sizes, found, goal.homes) <= _away(sizes, placed, goal.homes)
