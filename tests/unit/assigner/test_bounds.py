"""Bounds, compared with results calculated by hand."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.bounds.lower_bounds import (
    continuous_bound,
    load_bound,
    newcomers_bound,
    pairing_bound,
    rounding_bound,
    task_bound,
)
from assigner.problem.limits import Limits
from tests.placement_data import sizes_of

# (sizes, room): L1, L2, u(k)
CASES = [
    ([60, 60, 60], 100, 2, 3, 3),  # three above one half
    ([70, 40, 40], 100, 2, 2, 2),  # the 40s share a task, not with the 70
    ([90, 90, 20, 20], 100, 3, 3, 3),  # nothing fits beside a 90
    ([34, 34, 34, 34], 100, 2, 2, 2),
    ([51, 51, 27, 27, 27, 27], 100, 3, 3, 3),
    ([50, 50, 50, 50], 100, 2, 2, 2),
    ([0, 0, 0], 100, 0, 0, 0),
    ([], 100, 0, 0, 0),
    ([41, 41, 41, 41, 41], 100, 3, 3, 3),  # two of them per task
]


@pytest.mark.parametrize(("sizes", "room", "poured", "paired", "rounded"), CASES)
def test_task_bounds(sizes: list[int], room: int, poured: int, paired: int, rounded: int) -> None:
    descending = np.array(sorted(sizes, reverse=True), np.int64)
    assert continuous_bound(descending, room) == poured
    assert pairing_bound(descending, room) == paired
    assert rounding_bound(descending, room) == rounded
    assert task_bound(sizes_of(sizes), np.array([room])) == max(poured, paired, rounded)


def test_the_pairing_bound_sees_what_pouring_does_not() -> None:
    descending = np.array([90, 90, 90, 11, 11], np.int64)
    assert continuous_bound(descending, 100) == 3
    assert pairing_bound(descending, 100) == 4


def test_the_rounding_bound_sees_thirds() -> None:
    descending = np.array([34] * 7, np.int64)
    assert continuous_bound(descending, 100) == 3
    assert rounding_bound(descending, 100) == 4


def test_the_cap_and_each_dimension_count() -> None:
    assert task_bound(sizes_of([1] * 10), np.array([100]), Limits(3)) == 4
    both = np.array([[10, 90], [10, 90], [10, 10]], np.int64)
    assert task_bound(both, np.array([100, 100])) == 2
    assert task_bound(both[:, :1], np.array([100])) == 1


@pytest.mark.parametrize(
    ("sizes", "tasks", "lowest"),
    [
        ([10, 10, 10, 10], 2, 20),  # the mean
        ([50, 1, 1], 3, 50),  # the heaviest
        ([10, 10, 10], 2, 20),  # two of three share
        ([7, 7, 7, 7, 7], 2, 21),  # three of five share
        ([60, 50, 50, 1], 3, 60),
        ([95, 64, 48, 48, 40, 40], 3, 120),  # nothing fits beside the 95 below 135, so two tasks carry 240
        ([], 3, 0),
        ([0, 0], 2, 0),
    ],
)
def test_the_lowest_maximum(sizes: list[int], tasks: int, lowest: int) -> None:
    assert load_bound(np.array(sizes, np.int64), tasks) == lowest


def test_newcomers_need_room_that_is_not_there() -> None:
    assert newcomers_bound(np.array([50, 40]), np.array([70], np.int64), 100) == 10
    assert newcomers_bound(np.array([50, 40]), np.array([70, 60], np.int64), 100) == 20
    assert newcomers_bound(np.array([50, 40]), np.array([50], np.int64), 100) == 0
