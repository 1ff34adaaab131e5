"""The verifier rejects every kind of invalid plan, by name, whatever its origin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from assigner.answer.check import check_plan
from assigner.answer.placement_answer import PlacementAnswer
from assigner.planner import plan
from assigner.problem.policy import PlanMode, Policy
from mirror.errors import PlanRejected
from mirror.model.load import TaskCapacity, TaskLimits
from tests.placement_data import loads_of, tasks_of

CAPACITY = TaskCapacity(100, 50, 100)
LIMITS = TaskLimits(min_tasks=2, max_tasks=3, max_partitions_per_task=3)


def good() -> PlacementAnswer:
    loads = loads_of([60, 50, 30, 20, 10], messages=[1, 2, 3, 4, 5], levels=[0, 1, 0, 2, 0])
    return plan(loads, CAPACITY, LIMITS, Policy(mode=PlanMode.INCREMENTAL), tasks_of([0, 0, 1, 1, -1]))


def placed(task_of: list[int]) -> Callable[[PlacementAnswer], PlacementAnswer]:
    return lambda found: replace(found, task_of=tasks_of(task_of))


def changed(**fields: object) -> Callable[[PlacementAnswer], PlacementAnswer]:
    return lambda found: replace(found, **fields)  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[PlacementAnswer], PlacementAnswer], str]] = {
    "no task": (changed(alive=np.zeros(2, bool)), "no task"),
    "too few tasks": (changed(alive=np.array([True, False])), "min_tasks is 2"),
    "too many tasks": (changed(alive=np.ones(4, bool)), "max_tasks is 3"),
    "a partition without a word": (placed([0, 1, 1, 1]), "one entry per partition"),
    "a task that does not exist": (placed([0, 1, 1, 7, 0]), "t-3 is on a task that does not exist"),
    "homeless and not reported": (placed([0, 1, 1, -1, 0]), "1 partition has no task but 0"),
    "homeless although there is room": (
        lambda found: replace(found, task_of=tasks_of([0, 1, 1, -1, 0]), unplaced=(3,)),
        "t-3 has no task although there is room",
    ),
    "crowded": (placed([0, 1, 1, 1, 1]), "task 1 has 4 partitions"),
    "a load that is not so": (lambda found: replace(found, loads=found.loads + 1), "the load of task 0 is"),
    "a load before that was not so": (
        lambda found: replace(found, loads_before=found.loads_before * 0.9),
        "the load before of task 0",
    ),
    "moves that are not counted": (changed(moved_bytes_per_second=1.0), "and reports 1"),
    "a move without a reason": (
        lambda found: replace(found, move_causes=np.zeros(5, np.int8)),
        "has no reason",
    ),
    "an estimate that is not listed": (changed(estimated=()), "level topic"),
    "a default that is not listed": (changed(defaulted=(0, 3)), "level default"),
    "a maximum that is not so": (changed(max_load=1.0), "fullest task carries"),
    "a bound above the maximum": (changed(max_load_lower_bound=1e6), "is above the maximum"),
    "a bound above what is required": (changed(task_lower_bound=9), "bound of 9 tasks"),
    "a bound above what moves": (changed(moved_lower_bound=1e6), "bound on moved bytes"),
}


def test_a_right_plan_passes() -> None:
    check_plan(good(), CAPACITY, LIMITS)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_a_wrong_plan_is_rejected(name: str) -> None:
    change, culprit = WRONG[name]
    with pytest.raises(PlanRejected, match=culprit) as caught:
        check_plan(change(good()), CAPACITY, LIMITS)
    assert caught.value.advice


def test_an_overload_must_be_listed() -> None:
    loads = loads_of([150, 20])
    found = plan(loads, TaskCapacity(100, None, 100))
    with pytest.raises(PlanRejected, match="is not reported"):
        check_plan(replace(found, overloaded=()), TaskCapacity(100, None, 100), TaskLimits())
    with pytest.raises(PlanRejected, match="t-0 is offending"):
        check_plan(replace(found, offending=()), TaskCapacity(100, None, 100), TaskLimits())


def test_an_overload_must_have_a_need() -> None:
    """Two partitions exceed the capacity of a task, while another task may be added."""
    capacity = TaskCapacity(100, None, 100)
    found = plan(loads_of([60, 60, 10]), capacity)
    crowded = replace(
        found,
        task_of=tasks_of([0, 0, 1]),
        loads=np.array([[120.0, 0], [10.0, 0]]),
        overloaded=(0,),
        max_load=120.0,
    )
    with pytest.raises(PlanRejected, match="unnecessarily"):
        check_plan(crowded, capacity, TaskLimits())
    check_plan(crowded, capacity, TaskLimits(max_tasks=2))


def test_a_partition_on_a_given_up_task_is_found() -> None:
    found = good()
    alive = np.append(found.alive, [False])
    wrong = replace(found, alive=alive, task_of=tasks_of([2, *found.task_of.tolist()[1:]]))
    with pytest.raises(PlanRejected, match=r"t-0 .*\bremoved\b"):
        check_plan(wrong, CAPACITY, LIMITS)
