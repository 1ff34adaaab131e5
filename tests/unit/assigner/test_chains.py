"""Ejection chains bring partitions home that single moves and swaps leave away."""

from __future__ import annotations

import numpy as np

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints, TaskOf
from assigner.search.chains import ChainGoal, bring_home, shorten

_WORK = 1_000_000


def _goal(room: int, homes: list[int], limits: int | None = None) -> ChainGoal:
    return ChainGoal(room, np.array(homes, np.int32), Limits(limits))


def _sizes(*sizes: int) -> Ints:
    return np.array(sizes, np.int64)


def _placed(*tasks: int) -> TaskOf:
    return np.array(tasks, np.int32)


def test_a_chain_of_three_brings_the_heaviest_home() -> None:
    # 60 comes home if 40 leaves; 40 has room only in place of 30, and 30 only in the last task.
    sizes, away = _sizes(60, 40, 30), _placed(1, 0, 2)
    found = shorten(sizes, away, 4, _goal(60, [0, -1, -1]), _WORK)
    assert found[0] == 0
    assert len(set(found.tolist())) == 3


def test_a_ring_needs_no_room_anywhere() -> None:
    sizes, away = _sizes(50, 50, 50), _placed(1, 2, 0)
    assert shorten(sizes, away, 3, _goal(50, [0, 1, 2]), _WORK).tolist() == [0, 1, 2]


def test_who_has_no_task_pushes_others_on_until_all_have_one() -> None:
    # 70 fits beside none of the others; it takes the place of 40, which joins 60.
    sizes, away = _sizes(70, 60, 50, 40), _placed(-1, 0, 1, 2)
    found = shorten(sizes, away, 3, _goal(100, [-1, 0, 1, 2]), _WORK)
    assert found.tolist() == [2, 0, 1, 0]


def test_nothing_moves_for_what_costs_more() -> None:
    # 30 could come home only by evicting 80, which is at home.
    sizes, away = _sizes(80, 30), _placed(0, 1)
    assert shorten(sizes, away, 2, _goal(100, [0, 0]), _WORK).tolist() == [0, 1]


def test_two_make_way_for_one_that_is_forced_home() -> None:
    # No chain of single partitions: 60 comes home only if 35 and 25 both leave, each for another task.
    sizes, away = _sizes(60, 40, 35, 25), _placed(1, 2, 0, 0)
    goal = _goal(65, [0, 2, -1, -1])
    assert shorten(sizes, away, 3, goal, _WORK)[0] == 1
    found = bring_home(sizes, away, 3, goal, _WORK)
    assert found[0] == 0
    assert np.bincount(found, weights=sizes, minlength=3).max() <= 65


def test_a_task_that_may_hold_no_more_takes_one_only_for_another() -> None:
    sizes, away = _sizes(10, 5), _placed(1, 0)
    assert shorten(sizes, away, 2, _goal(100, [0, 0]), _WORK).tolist() == [0, 0]
    assert shorten(sizes, away, 2, _goal(100, [0, 0], 1), _WORK).tolist() == [0, 1]


def test_without_work_nothing_is_done() -> None:
    sizes, away = _sizes(50, 50), _placed(1, 0)
    assert shorten(sizes, away, 2, _goal(50, [0, 1]), 0).tolist() == [1, 0]
