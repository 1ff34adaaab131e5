"""Single exchanges: the exchanged partitions, and the resulting loads and counts."""

from __future__ import annotations

import numpy as np

from assigner.bounds.subsets import subset_sums
from assigner.problem.limits import UNLIMITED, Limits
from assigner.search.arrangement import Arrangement
from assigner.search.descent import DescentGoal, best_subset_exchange, descend, find_exchange
from assigner.search.vector_descent import descend_vectors
from tests.placement_data import sizes_of, tasks_of


def arrangement(sizes: list[int], task_of: list[int]) -> Arrangement:
    return Arrangement(sizes_of(sizes), tasks_of(task_of), max(task_of) + 1)


def test_an_arrangement_knows_loads_counts_and_members() -> None:
    state = arrangement([9, 5, 3, 1], [0, 1, 1, -1])
    assert state.loads[:, 0].tolist() == [9, 8]
    assert state.counts.tolist() == [1, 2]
    assert state.members(1).tolist() == [1, 2]
    state.transfer(1, 0, np.array([2]), np.array([0]))
    assert state.task_of.tolist() == [1, 1, 0, -1]
    assert state.loads[:, 0].tolist() == [3, 14]
    assert state.members(1).tolist() == [0, 1]
    state.put(3, 0)
    assert state.counts.tolist() == [2, 2]
    assert state.loads[:, 0].tolist() == [4, 14]


def test_the_smallest_exchange_that_relieves_wins() -> None:
    state = arrangement([8, 6, 5, 1, 4, 3], [0, 0, 0, 0, 1, 1])
    found, _ = find_exchange(state, 0, DescentGoal(16))
    assert found is not None
    assert (found.partner, found.given.tolist(), found.taken.tolist()) == (1, [0], [4])
    frugal, _ = find_exchange(state, 0, DescentGoal(16, frugal=True))
    assert frugal is not None
    assert (frugal.given.tolist(), frugal.taken.tolist()) == ([2], [])


def test_a_crowded_partner_only_swaps() -> None:
    state = arrangement([8, 6, 5, 4, 3, 2], [0, 0, 0, 1, 1, 1])
    found, _ = find_exchange(state, 0, DescentGoal(16, Limits(3)))
    assert found is not None
    assert len(found.given) == len(found.taken) == 1


def test_subsets_help_where_single_partitions_do_not() -> None:
    """{6, 5} against {4, 4}: every single swap overshoots, nothing single levels 11 and 8 below 11."""
    state = arrangement([6, 6, 6, 5, 5, 5], [0, 0, 1, 0, 1, 1])
    assert state.loads[:, 0].tolist() == [17, 16]
    assert best_subset_exchange(state, 0, 1, UNLIMITED) is None
    uneven = arrangement([9, 7, 6, 4, 4], [0, 0, 1, 0, 1])
    found = best_subset_exchange(uneven, 0, 1, UNLIMITED)
    assert found is not None
    assert found.higher == 15
    assert best_subset_exchange(uneven, 0, 1, Limits(2)) is None


def test_subset_sums_ascend_and_name_their_members() -> None:
    sums, masks = subset_sums(np.array([4, 1], np.int64))
    assert sums.tolist() == [0, 1, 4, 5]
    assert masks.tolist() == [0, 2, 1, 3]


def test_descent_stops_when_its_work_is_used_up() -> None:
    state = arrangement([1] * 100, [0] * 99 + [1])
    assert not descend(state, DescentGoal(50), 1)
    assert state.loads[:, 0].tolist()[0] < 99
    assert descend(state, DescentGoal(50), 10**7)


def test_a_lone_task_is_what_it_is() -> None:
    state = arrangement([5, 4], [0, 0])
    assert descend(state, DescentGoal(9), 1000)
    assert not descend(state, DescentGoal(8), 1000)


def test_in_two_dimensions_the_binding_one_decides() -> None:
    sizes = np.array([[50, 5], [40, 5], [5, 50], [5, 40]], np.int64)
    state = Arrangement(sizes, tasks_of([0, 0, 1, 1]), 2)
    assert descend_vectors(state, np.array([60, 60]), 10**6)
    assert state.loads.max() <= 60
