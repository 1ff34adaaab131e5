"""Test which moves wait for quiet hours or the end of a freeze, and which never do."""

from __future__ import annotations

import pytest

from assigner.planner import LoadPlanner
from assigner.problem.policy import Policy
from mirror.instance.loads.expectation import ExpectedLoads
from mirror.model.capacity.quiet_window import QuietWindow
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition

PLACES = tuple(TopicPartition("t", number) for number in range(8))
CAPACITY = TaskCapacity(100, None, 100)
CALM = "the freeze window 22:00 to 06:00 is in effect"


def planned(
    rates: list[float], homes: list[int], calm: str = CALM, *, rebalance: bool = False, full: bool = False
) -> GroupPlan:
    """Return the plan of partitions with these loads, also in the last two observations; home -1: new."""
    loads = {place: PartitionLoad(rate, None) for place, rate in zip(PLACES, rates, strict=False)}
    current = {place: TaskName(f"g-{home}") for place, home in zip(PLACES, homes, strict=False) if home >= 0}
    request = PlanningRequest(
        GroupName("g"),
        PLACES[: len(rates)],
        loads,
        CAPACITY,
        TaskLimits(),
        current,
        full,
        rebalance,
        recent=(loads, loads),
        calm=calm,
    )
    return LoadPlanner(Policy(full_move_cost=0.0)).plan(request)


def test_no_task_is_given_up_in_a_calm_and_the_plan_says_why() -> None:
    found = planned([10, 10, 10, 10], [0, 1, 2, 3])
    assert len(found.tasks) == 4
    assert any(reason.endswith(CALM) for reason in found.reasons)
    assert not found.move_reasons
    assert len(planned([10, 10, 10, 10], [0, 1, 2, 3], "").tasks) == 1


@pytest.mark.parametrize("how", ["rebalance", "full"])
def test_who_asks_is_answered(how: str) -> None:
    found = planned([10, 10, 10, 10], [0, 1, 2, 3], rebalance=how == "rebalance", full=how == "full")
    assert len(found.tasks) == 1


def test_an_overload_is_relieved_in_a_calm() -> None:
    found = planned([80, 60, 10], [0, 0, 1])
    assert not found.overloaded
    assert found.move_reasons


def test_tasks_are_added_in_a_calm() -> None:
    assert len(planned([80, 80, 80], [0, 0, 0]).tasks) == 3


def test_a_new_partition_gets_a_task_in_a_calm() -> None:
    found = planned([50, 50, 20], [0, 1, -1])
    assert sorted(place for held in found.tasks.values() for place in held) == list(PLACES[:3])


def test_quiet_hours_are_of_a_group_and_end_with_the_lead() -> None:
    expected = ExpectedLoads()
    expected.put_quiet({GroupName("g"): QuietWindow((1,) * 7, 4)})
    assert expected.quiet(GroupName("g")) == QuietWindow((1,) * 7, 4)
    assert expected.quiet(GroupName("h")) is None
    expected.forget()
    assert expected.quiet(GroupName("g")) is None
