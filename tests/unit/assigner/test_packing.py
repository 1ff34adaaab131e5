"""Pouring, the tail, and best fit, step by step."""

from __future__ import annotations

import numpy as np

from assigner.problem.limits import UNLIMITED, Limits
from assigner.search.greedy import assign_lpt, best_fit, level_tail, tail_start
from tests.placement_data import sizes_of

ROOM = np.array([100])


def test_each_partition_goes_to_the_lightest_task() -> None:
    loads, counts = np.zeros((2, 1), np.int64), np.zeros(2, np.int64)
    chosen = assign_lpt(sizes_of([7, 5, 4, 3]), np.arange(4), loads, counts, ROOM)
    assert chosen.tolist() == [0, 1, 1, 0]
    assert loads[:, 0].tolist() == [10, 9]
    assert counts.tolist() == [2, 2]


def test_tasks_that_carry_something_are_poured_on_last() -> None:
    loads, counts = np.array([[6], [0]]), np.array([1, 0])
    assert assign_lpt(sizes_of([4, 3, 2]), np.arange(3), loads, counts, ROOM).tolist() == [1, 1, 0]


def test_equal_loads_go_by_count_then_by_number() -> None:
    loads, counts = np.array([[5], [5], [5]]), np.array([2, 1, 1])
    assert assign_lpt(sizes_of([1]), np.arange(1), loads, counts, ROOM).tolist() == [1]


def test_a_full_task_leaves_and_the_rest_stays_homeless() -> None:
    loads, counts = np.zeros((2, 1), np.int64), np.array([0, 1])
    assert assign_lpt(
        sizes_of([9, 8, 7, 6]), np.arange(4), loads, counts, ROOM, limits=Limits(1)
    ).tolist() == [
        0,
        -1,
        -1,
        -1,
    ]


def test_two_dimensions_complement_each_other() -> None:
    sizes = np.array([[90, 10], [10, 90], [10, 80], [80, 10]], np.int64)
    loads, counts = np.zeros((2, 2), np.int64), np.zeros(2, np.int64)
    chosen = assign_lpt(sizes, np.arange(4), loads, counts, np.array([100, 100]))
    assert chosen.tolist() == [0, 1, 0, 1]
    assert loads.max() == 100


def test_the_tail_is_at_most_a_ten_thousandth() -> None:
    assert tail_start(sizes_of([20_000, 1, 1])) == 1
    assert tail_start(sizes_of([10_000, 1, 1])) == 2
    assert tail_start(sizes_of([0, 0])) == 0
    assert tail_start(np.array([[10_000, 0], [0, 10_000], [1, 0]], np.int64)) == 2


def test_the_tail_fills_low_counts_first() -> None:
    dealt = level_tail(np.array([3, 0, 1]), 5, np.zeros(3, bool), UNLIMITED)
    assert np.bincount(dealt, minlength=3).tolist() == [0, 3, 2]
    assert dealt.tolist()[:2] == [1, 2]


def test_closed_tasks_take_of_the_tail_only_what_the_others_cannot() -> None:
    closed = np.array([True, False])
    assert level_tail(np.array([0, 0]), 2, closed, UNLIMITED).tolist() == [1, 1]
    assert level_tail(np.array([0, 0]), 3, closed, Limits(2)).tolist() == [1, 1, 0]
    assert level_tail(np.array([0, 0]), 5, closed, Limits(2)).tolist() == [1, 1, 0, 0, -1]


def test_best_fit_prefers_the_fullest_task() -> None:
    sizes = np.array([60, 50, 40, 30], np.int64)
    assert best_fit(sizes, 100, 2).tolist() == [0, 1, 0, 1]
    assert best_fit(sizes, 100, 1).tolist() == [0, -1, 0, -1]
    assert best_fit(sizes, 100, 2, limits=Limits(1)).tolist() == [0, 1, -1, -1]
