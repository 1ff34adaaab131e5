"""The validated problem: units, order, and errors that name every invalid input."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.problem.policy import Policy
from assigner.problem.problem import build_problem, in_units
from mirror.errors import InvalidRequest
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition
from tests.placement_data import a_problem, loads_of, tasks_of


@pytest.mark.parametrize(
    ("rate", "units"),
    [(0.0, 0), (1.0, 1000), (0.1, 100), (0.1 + 0.2, 300), (1 / 3, 334), (1e-9, 0), (1e-3, 1), (1.0001, 1001)],
)
def test_sizes_are_rounded_up_to_thousandths(rate: float, units: int) -> None:
    assert in_units(np.array([rate])).tolist() == [units]


def test_decimals_that_fill_a_task_exactly_do_fit() -> None:
    assert a_problem([0.1] * 10, 1).sizes.sum() == a_problem([1.0], 1).usable[0]


def test_usable_capacity_is_cut_not_rounded() -> None:
    problem = build_problem(loads_of([1.0]), TaskCapacity(10 * 2**20, 999, 70), TaskLimits(), None)
    assert problem.usable.tolist() == [7_340_032_000, 699_000]
    assert problem.dimensions == 2


def test_ranks_run_from_the_heaviest_and_ties_by_name() -> None:
    problem = a_problem([5.0, 9.0, 5.0, 0.0], 100, home=[1, 0, -1, 1])
    assert [p.partition for p in problem.partitions] == [1, 0, 2, 3]
    assert problem.order.tolist() == [1, 0, 2, 3]
    assert problem.home.tolist() == [0, 1, -1, 1]
    assert problem.homes == 2


def test_with_two_dimensions_the_sum_of_shares_ranks() -> None:
    problem = a_problem([10.0, 50.0], 100, messages=([9.0, 1.0], 10))
    assert [p.partition for p in problem.partitions] == [0, 1]


def test_offending_is_strictly_above_usable_in_any_dimension() -> None:
    problem = a_problem([100.0, 100.001, 1.0], 100, messages=([1.0, 1.0, 11.0], 10))
    named = {p.partition for p, own in zip(problem.partitions, problem.offending, strict=True) if own}
    assert named == {1, 2}


def test_measured_is_the_share_that_is_more_than_the_default() -> None:
    loads = loads_of([1.0] * 4, levels=[0, 1, 2, 2])
    assert build_problem(loads, TaskCapacity(10), TaskLimits(), None).measured == 0.5


def test_a_part_of_a_problem_keeps_what_belongs_to_it() -> None:
    part = a_problem([5.0, 9.0, 7.0], 100, home=[0, 1, 1]).only(np.array([0, 2]))
    assert [p.partition for p in part.partitions] == [1, 0]
    assert part.home.tolist() == [1, 0]
    assert part.order.tolist() == [1, 0]


def test_a_partition_named_twice_is_refused() -> None:
    loads = loads_of([1.0, 2.0])
    twice = type(loads)((TopicPartition("x", 3),) * 2, loads.rates, loads.levels)
    with pytest.raises(InvalidRequest, match="x-3 appears twice"):
        build_problem(twice, TaskCapacity(10), TaskLimits(), None)


def test_capacity_of_which_nothing_is_usable_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="0 messages"):
        build_problem(loads_of([1.0]), TaskCapacity(10, 1, 50), TaskLimits(), None)


def test_an_absurd_total_is_refused() -> None:
    with pytest.raises(InvalidRequest, match=r"\bsum\b"):
        build_problem(loads_of([9e11] * 1200), TaskCapacity(10), TaskLimits(), None)


@pytest.mark.parametrize(
    ("current", "culprit"),
    [([0], "expected current tasks of 2 partitions, got 1"), ([0, -2], "task number -2")],
)
def test_current_tasks_must_make_sense(current: list[int], culprit: str) -> None:
    with pytest.raises(InvalidRequest, match=culprit):
        build_problem(loads_of([1.0, 2.0]), TaskCapacity(10), TaskLimits(), tasks_of(current))


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("tolerance", -0.1),
        ("scale_in_headroom", 1.0),
        ("overload_band", 1.5),
        ("move_budget", 1.1),
        ("full_move_cost", -1.0),
        ("exact_cells", -1),
        ("effort", float("nan")),
        ("seed", -1),
        ("seed", 2**31),
    ],
)
def test_a_knob_out_of_range_is_named(knob: str, value: float) -> None:
    with pytest.raises(InvalidRequest, match=knob):
        Policy(**{knob: value})  # type: ignore[arg-type]
