"""Plans from scratch: counts, offending partitions, limits, names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from assigner.answer.placement_answer import PlacementAnswer
from assigner.bounds.lower_bounds import task_bound
from assigner.planner import plan
from assigner.problem.limits import UNLIMITED
from assigner.problem.policy import PlanMode, Policy
from assigner.stages.full import PackingInput, fewest_tasks, goal_at
from assigner.stages.relabel import relabel
from mirror.model.load import TaskCapacity, TaskLimits
from tests.placement_data import loads_of, sizes_of, tasks_of

CAPACITY = TaskCapacity(100, None, 100)


def answer(
    rates: Sequence[float], limits: TaskLimits | None = None, home: list[int] | None = None
) -> PlacementAnswer:
    return plan(loads_of(rates), CAPACITY, limits, Policy(), None if home is None else tasks_of(home))


def test_greedy_alone_would_overload_a_task() -> None:
    """Heaviest first gives 110 and 90; the plan gives 100 and 100."""
    found = answer([60, 50, 40, 30, 20])
    assert found.loads[:, 0].tolist() == [100, 100]
    assert found.gap.tasks == found.gap.max_load == 0


def test_sum_over_capacity_is_not_enough() -> None:
    """Four times 68 is 272: three tasks by the sum, with one task at 136 %."""
    found = answer([68, 68, 68, 68])
    assert (found.tasks, found.task_lower_bound) == (4, 4)


def test_an_offending_partition_does_not_distort_the_rest() -> None:
    found = answer([250, 40, 40, 20])
    assert found.tasks == 2
    assert sorted(found.loads[found.alive, 0].tolist()) == [100, 250]
    assert found.offending == (0,)
    assert found.max_load == found.max_load_lower_bound == 250


def test_silent_partitions_spread_by_count() -> None:
    found = answer([90, 90] + [0] * 98)
    assert np.bincount(found.task_of).tolist() == [50, 50]
    silent = answer([0] * 10, TaskLimits(min_tasks=3))
    assert sorted(np.bincount(silent.task_of).tolist()) == [3, 3, 4]


def test_messages_count_where_they_have_a_capacity() -> None:
    loads = loads_of([10] * 4, messages=[60, 60, 40, 40])
    assert plan(loads, CAPACITY).tasks == 1
    found = plan(loads, TaskCapacity(100, 100, 100))
    assert found.tasks == 2
    assert found.loads[:, 1].tolist() == [100, 100]


@pytest.mark.parametrize(
    ("limits", "tasks", "required"),
    [
        (TaskLimits(min_tasks=4), 4, 2),
        (TaskLimits(max_tasks=1), 1, 2),
        (TaskLimits(max_partitions_per_task=1), 5, 5),
        (TaskLimits(min_tasks=9), 5, 2),
    ],
)
def test_limits(limits: TaskLimits, tasks: int, required: int) -> None:
    found = answer([60, 50, 40, 30, 20], limits)
    assert (found.tasks, found.required_tasks) == (tasks, required)
    assert found.min_tasks_unmet == (limits.min_tasks > 5)


def test_when_max_tasks_binds_offending_partitions_share() -> None:
    found = answer([150, 120, 60, 30], TaskLimits(max_tasks=2))
    assert sorted(found.loads[:, 0].tolist()) == [180, 180]
    assert found.required_tasks == 3


def test_nothing_to_place_is_one_task() -> None:
    found = answer([])
    assert (found.tasks, found.max_load, found.reasons != ()) == (1, 0, True)


def test_a_full_plan_keeps_the_names_that_fit_best() -> None:
    found = answer([60, 50, 40, 30], home=[1, 0, 0, 1])
    assert found.moved_partitions == 0
    assert relabel(sizes_of([9, 5, 5])[:, 0], tasks_of([1, 0, 0]), tasks_of([0, 1, 2]), 2)[0].tolist() == [
        1,
        0,
        2,
    ]


def test_equal_questions_get_equal_answers_whatever_the_mode_was_called_with() -> None:
    one, two = answer([30, 20, 10]), answer([30, 20, 10])
    assert (one.task_of == two.task_of).all()
    assert one.reasons == two.reasons
    fresh = plan(
        loads_of([30, 20, 10]), CAPACITY, None, Policy(mode=PlanMode.INCREMENTAL), tasks_of([-1] * 3)
    )
    assert (fresh.task_of == one.task_of).all()


def triplets(tasks: int, seed: int) -> list[int]:
    """Return Falkenauer's hard case: three partitions fill a task exactly."""
    random = np.random.default_rng(seed)
    sizes: list[int] = []
    for _ in range(tasks):
        first = int(random.integers(380, 491))
        second = int(random.integers(250, (1000 - first) // 2 + 1))
        sizes += [first, second, 1000 - first - second]
    return sorted(sizes, reverse=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_column_generation_solves_exact_triplets(seed: int) -> None:
    packed = fewest_tasks(PackingInput(sizes_of(triplets(20, seed)), np.array([1000]), UNLIMITED, 1.0, 1))
    assert (packed.tasks, packed.bound, packed.stage) == (20, 20, "column generation")


def test_a_bound_is_raised_where_the_closed_forms_are_too_low() -> None:
    """65 + 28 leaves 7, 65 + 12 leaves 23: no subset has a sum of 98 to 100, so two tasks are not enough."""
    sizes = sizes_of([65, 48, 43, 28, 12])
    assert task_bound(sizes, np.array([100])) == 2
    packed = fewest_tasks(PackingInput(sizes, np.array([100]), UNLIMITED, 1.0, 1))
    assert (packed.tasks, packed.bound) == (3, 3)


def test_a_load_far_above_the_room_of_one_dimension_does_not_limit_the_other() -> None:
    """The room of bytes, times the shortage of room for messages, exceeds 64 bits."""
    sizes, room = np.array([[1_000, 10**15]] * 4), np.array([10**15, 1_000])
    goal = goal_at(PackingInput(sizes, room, UNLIMITED, 1.0, 1), 2)
    assert goal[0] >= room[0]
    assert goal[1] >= 2 * 10**15
