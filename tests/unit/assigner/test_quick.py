"""Task counts without a search, against the planner and against the bound by sums."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assigner.advice.past import LeastTerms, least_tasks, sums_of
from assigner.planner import plan
from assigner.problem.limits import Limits
from assigner.problem.loads import UNKNOWN_LOAD, resolve
from assigner.problem.policy import Policy
from assigner.problem.problem import in_units, usable_units
from assigner.what_if.ahead import quick_tasks
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

FAST = Policy(effort=0.1, exact_cells=0)
RATES = st.one_of(st.integers(0, 30), st.integers(0, 150), st.sampled_from((0, 33, 34, 50, 51, 100, 101)))


@given(
    st.lists(st.tuples(RATES, RATES), min_size=1, max_size=40),
    st.sampled_from((None, 100)),
    st.sampled_from((None, 1, 3, 8)),
)
def test_the_planner_needs_between_the_bound_and_the_quick_packing(
    rates: list[tuple[int, int]], messages: int | None, most: int | None
) -> None:
    capacity = TaskCapacity(100, messages, 100)
    loads = {
        TopicPartition("t", n): PartitionLoad(float(one), float(two)) for n, (one, two) in enumerate(rates)
    }
    demand = resolve(list(loads), loads)
    found = plan(demand, capacity, TaskLimits(max_partitions_per_task=most), FAST).required_tasks
    usable = usable_units(capacity)
    quick = quick_tasks(in_units(demand.rates[None, :, : len(usable)]), usable, Limits(most))[0]
    terms = LeastTerms(len(loads), capacity, UNKNOWN_LOAD, most)
    assert least_tasks(sums_of(list(loads.values()), capacity), terms) <= min(found, quick)
    if messages is None:  # the search tries the same packing in one dimension only
        assert found <= quick


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.sampled_from((None, 4)))
def test_a_count_without_a_packing_is_that_of_the_packing(sizes: list[int], most: int | None) -> None:
    """A full packing of one partition after the other fills as many tasks."""
    loads: list[list[int]] = []
    for size in sorted(sizes, reverse=True):
        open_tasks = [one for one in loads if sum(one) + size <= 100 and (most is None or len(one) < most)]
        if open_tasks:
            max(open_tasks, key=sum).append(size)
        else:
            loads.append([size])
    found = quick_tasks(np.array(sizes, np.int64)[None, :, None], np.array([100]), Limits(most))[0]
    assert found <= len(loads)
    assert 9 * found <= 11 * len(loads) + 9


@pytest.mark.parametrize("sizes", [[], [0], [0, 0, 0]])
def test_nothing_to_carry_takes_a_task(sizes: list[int]) -> None:
    assert quick_tasks(np.array(sizes, np.int64).reshape(1, -1, 1), np.array([100]), Limits()) == [1]


def test_partitions_without_a_load_count_by_the_default() -> None:
    sums = sums_of([PartitionLoad(60.0)], TaskCapacity(100, None, 100))
    default = PartitionLoad(30.0)
    assert least_tasks(sums, LeastTerms(1, TaskCapacity(100, None, 100), default)) == 1
    assert least_tasks(sums, LeastTerms(3, TaskCapacity(100, None, 100), default)) == 2
    assert least_tasks(sums, LeastTerms(3, TaskCapacity(100, None, 100), UNKNOWN_LOAD)) == 3
    assert least_tasks(sums, LeastTerms(0, TaskCapacity(100, None, 100), default)) == 1


@given(
    st.lists(st.lists(st.tuples(RATES, RATES), min_size=7, max_size=7), max_size=5),
    st.integers(1, 2),
    st.sampled_from((None, 1, 3)),
)
def test_several_hours_are_packed_as_each_alone(
    hours: list[list[tuple[int, int]]], dimensions: int, most: int | None
) -> None:
    sizes = np.array(hours, np.int64).reshape(len(hours), 7, 2)[:, :, :dimensions]
    usable = np.array([100, 60])[:dimensions]
    alone = [quick_tasks(one[None], usable, Limits(most))[0] for one in sizes]
    assert quick_tasks(sizes, usable, Limits(most)) == alone
