"""Test the built-in planner."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror.coordination.placement import SimplePlanner
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from mirror.ports import Planner


def plan(
    rates: Mapping[int, float] | list[float],
    current: Mapping[int, str] | None = None,
    limits: TaskLimits | None = None,
    full: bool = False,
    known: bool = True,
) -> GroupPlan:
    """Return the plan of the partitions `t-<number>` with these rates and tasks of capacity 100."""
    rates = rates if isinstance(rates, Mapping) else dict(enumerate(rates))
    planner: Planner = SimplePlanner()
    return planner.plan(
        PlanningRequest(
            group=GroupName("g"),
            partitions=tuple(TopicPartition("t", number) for number in rates),
            loads={TopicPartition("t", n): PartitionLoad(rate) for n, rate in rates.items()} if known else {},
            capacity=TaskCapacity(100, utilisation_percent=100),
            limits=limits or TaskLimits(),
            current={TopicPartition("t", n): TaskName(name) for n, name in (current or {}).items()},
            full=full,
        )
    )


def held(found: GroupPlan) -> dict[str, set[int]]:
    return {task: {one.partition for one in partitions} for task, partitions in found.tasks.items()}


def test_the_load_asks_for_the_tasks_and_the_heaviest_goes_first() -> None:
    assert held(plan([90, 60, 40, 10])) == {"g-0": {0, 3}, "g-1": {1, 2}}


def test_without_loads_partitions_are_spread_by_count() -> None:
    found = held(plan([0] * 7, limits=TaskLimits(min_tasks=3), known=False))
    assert sorted(len(partitions) for partitions in found.values()) == [2, 2, 3]


def test_what_is_placed_stays_and_what_is_new_goes_to_the_lightest() -> None:
    found = held(plan([50, 20, 10], current={0: "g-0", 1: "g-1"}))
    assert found == {"g-0": {0}, "g-1": {1, 2}}


def test_a_full_plan_forgets_the_placement() -> None:
    current = {0: "g-0", 1: "g-0", 2: "g-1", 3: "g-1"}
    assert held(plan([50, 50, 10, 10], current=current, full=True)) == {"g-0": {0, 2}, "g-1": {1, 3}}


def test_a_task_that_empties_is_kept_until_a_full_plan() -> None:
    current = {0: "g-0", 1: "g-1", 2: "g-2"}
    assert len(plan({0: 1, 1: 1}, current=current).tasks) == 3
    assert len(plan({0: 1, 1: 1}, current=current, full=True).tasks) == 1


@pytest.mark.parametrize(
    ("limits", "tasks", "required"),
    [
        (TaskLimits(), 3, 3),
        (TaskLimits(min_tasks=5), 5, 5),
        (TaskLimits(max_tasks=2), 2, 3),
        (TaskLimits(max_partitions_per_task=2), 5, 5),
        (TaskLimits(max_partitions_per_task=2, max_tasks=4), 4, 5),
    ],
)
def test_limits_bind(limits: TaskLimits, tasks: int, required: int) -> None:
    found = plan([30] * 10, limits=limits)
    assert len(found.tasks) == tasks
    assert found.required_tasks == required
    assert sum(len(partitions) for partitions in found.tasks.values()) == 10


def test_never_more_tasks_than_partitions_for_load_alone() -> None:
    assert len(plan([1_000, 1_000]).tasks) == 2


def test_nothing_to_place_is_one_empty_task() -> None:
    assert held(plan([])) == {"g-0": set()}


@pytest.mark.parametrize("current", [None, {0: "g-0", 1: "g-0", 2: "g-1"}])
def test_a_task_holds_no_more_partitions_than_it_may(current: dict[int, str] | None) -> None:
    found = plan([90, 1, 1, 1, 1, 1], current=current, limits=TaskLimits(max_partitions_per_task=2))
    assert max(len(partitions) for partitions in found.tasks.values()) == 2


def test_a_task_that_holds_more_than_it_may_by_now_gives_up_the_lightest() -> None:
    current = dict.fromkeys(range(4), "g-0")
    found = held(plan([9, 8, 7, 6], current=current, limits=TaskLimits(max_partitions_per_task=2)))
    assert found == {"g-0": {0, 1}, "g-1": {2, 3}}


def test_where_the_limits_contradict_each_other_every_partition_is_placed_all_the_same() -> None:
    found = plan([1] * 9, limits=TaskLimits(max_tasks=2, max_partitions_per_task=2))
    assert sorted(len(partitions) for partitions in found.tasks.values()) == [4, 5]


def test_the_names_of_existing_tasks_are_kept_and_the_lowest_free_number_is_next() -> None:
    found = plan([90, 90, 90], current={0: "g-7", 1: "g-1"})
    assert sorted(found.tasks) == ["g-0", "g-1", "g-7"]


def test_no_task_is_made_for_which_there_is_no_partition() -> None:
    world = [TopicPartition("t", number) for number in range(3)]
    request = PlanningRequest(
        GroupName("g"), tuple(world), {}, TaskCapacity(100), TaskLimits(min_tasks=10_000), {}
    )
    assert len(SimplePlanner().plan(request).tasks) == 3
