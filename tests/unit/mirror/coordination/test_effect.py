"""Test the predicted effect of moves on the load of tasks."""

from __future__ import annotations

from dataclasses import replace

from mirror.coordination.monitors.effect import PlacementEffect, effect_of
from mirror.coordination.plan_decision import Decision
from mirror.model.identifiers import GroupName, InstanceName, TaskName
from mirror.model.load import LoadReport, PartitionLoad
from mirror.model.plan import GroupPlan, Move
from mirror.model.topics import TopicPartition

GROUP = GroupName("orders")
FIRST, SECOND = TaskName("orders_0"), TaskName("orders_1")
ONE, OTHER = InstanceName("one"), InstanceName("two")
HOT, WARM, COLD = (TopicPartition("t", number) for number in range(3))
LOADS = {HOT: PartitionLoad(100.0), WARM: PartitionLoad(80.0), COLD: PartitionLoad(1.0)}
AFTER = GroupPlan(
    {FIRST: frozenset({HOT}), SECOND: frozenset({WARM, COLD})}, {FIRST: 100.0, SECOND: 81.0}, required_tasks=2
)
DECISION = Decision(
    None,
    "1 partition moves",
    (Move(GROUP, WARM, FIRST, SECOND, ONE, OTHER),),
    {GROUP: AFTER},
    loads={GROUP: LoadReport(LOADS, "tests", 1)},
)


def test_the_load_before_is_reckoned_from_what_moves() -> None:
    assert effect_of(DECISION) == PlacementEffect(1, 80.0, 180.0, 100.0)


def test_a_task_that_changes_its_instance_keeps_its_load() -> None:
    moves = (Move(GROUP, WARM, SECOND, SECOND, ONE, OTHER), Move(GROUP, COLD, None, SECOND, None, OTHER))
    assert effect_of(replace(DECISION, moves=moves)) == PlacementEffect(2, 81.0, 100.0, 100.0)


def test_loads_that_are_not_known_are_said_to_be() -> None:
    unknown = replace(DECISION, loads={})
    assert effect_of(unknown) == PlacementEffect(1)
    partly = replace(DECISION, loads={GROUP: LoadReport({HOT: LOADS[HOT]}, "tests", 1)})
    assert effect_of(partly) == PlacementEffect(1)
    overloaded = {GROUP: replace(AFTER, overloaded=(FIRST,))}
    assert effect_of(replace(unknown, group_plans=overloaded)) == PlacementEffect(1, overloaded_after=1)


def test_nothing_moves() -> None:
    assert effect_of(Decision(None, "no change")) == PlacementEffect(0)
