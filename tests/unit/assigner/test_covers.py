"""Choice of the partitions that leave an overloaded task."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.bounds.covers import SearchDepth, cheapest_cover
from assigner.problem.limits import UNLIMITED, Limits
from assigner.stages.eviction import evict
from tests.placement_data import sizes_of, tasks_of


@pytest.mark.parametrize(
    ("sizes", "excess", "taken"),
    [
        ([50, 30, 20, 10], 10, [3]),
        ([50, 30, 20, 10], 25, [1]),
        ([50, 30, 20, 10], 35, [1, 3]),
        ([50, 30, 20, 10], 45, [0]),
        ([50, 30, 20, 10], 50, [0]),  # the 30 and the 20 weigh as much, but are two
        ([50, 30, 20, 10], 101, [0, 1, 2, 3]),
        ([50, 0, 0], 1, [0]),
    ],
)
def test_the_lightest_then_the_smallest_subset(sizes: list[int], excess: int, taken: list[int]) -> None:
    cover = cheapest_cover(np.arange(len(sizes)), np.array(sizes, np.int64), excess)
    assert cover.taken.tolist() == taken
    assert cover.least == sum(sizes[index] for index in taken)


def test_one_heavy_partition_can_be_cheaper_than_many_light_ones() -> None:
    sizes = np.array([1001] + [300] * 40, np.int64)
    cover = cheapest_cover(np.arange(41), sizes, 1000, SearchDepth.QUICK)
    assert cover.taken.tolist() == [0]
    assert cover.least == 1000


def test_many_light_partitions_that_do_not_add_up_leave_it_to_a_heavy_one() -> None:
    cover = cheapest_cover(
        np.arange(43), np.array([700, 500, 300] + [2] * 40, np.int64), 100, SearchDepth.QUICK
    )
    assert cover.taken.tolist() == [2]
    assert cover.least == 300


def test_only_relieved_tasks_shed() -> None:
    home = tasks_of([0, 0, 1, 1])
    above = np.array([True, False])
    left = evict(sizes_of([60, 50, 70, 40]), home, np.zeros(4, bool), above, np.array([100]), UNLIMITED)
    assert left.kept.tolist() == [0, -1, 1, 1]
    assert left.least.tolist() == [50, 0]


def test_neighbours_leave_an_isolated_partition_and_the_lighter_of_two_leaves() -> None:
    home = tasks_of([0, 0, 0, 1])
    isolated = np.array([True, True, False, False])
    left = evict(sizes_of([200, 150, 5, 7]), home, isolated, np.zeros(2, bool), np.array([100]), UNLIMITED)
    assert left.kept.tolist() == [0, -1, -1, 1]
    assert left.least.tolist() == [155, 0]


def test_a_crowded_task_gives_up_its_lightest() -> None:
    home = tasks_of([0, 0, 0, 0])
    left = evict(
        sizes_of([40, 30, 20, 10]), home, np.zeros(4, bool), np.array([True]), np.array([65]), Limits(2)
    )
    assert left.kept.tolist() == [-1, 0, 0, -1]
    assert left.least.tolist() == [40]


def test_in_two_dimensions_the_relief_a_byte_counts() -> None:
    sizes = np.array([[60, 2], [30, 9], [20, 1]], np.int64)
    left = evict(
        sizes, tasks_of([0, 0, 0]), np.zeros(3, bool), np.array([True]), np.array([1000, 5]), UNLIMITED
    )
    assert left.kept.tolist() == [0, -1, 0]
    assert left.least.tolist() == [23]  # seven of nine messages, as a share of 30 bytes
