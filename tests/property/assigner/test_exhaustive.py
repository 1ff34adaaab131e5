"""Plans of up to eight partitions, compared with every possible placement."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.planner import plan
from assigner.problem.policy import PlanMode, Policy
from mirror.model.load import TaskCapacity, TaskLimits
from tests.examples import examples
from tests.placement_data import (
    fewest_moved_by_exhaustion,
    fewest_tasks_by_exhaustion,
    loads_of,
    lowest_maximum_by_exhaustion,
    tasks_of,
)


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], int, int | None]:
    """Draw sizes, a usable capacity that fits each size, and a cap on partitions."""
    usable = draw(st.integers(10, 60))
    sizes = draw(st.lists(st.integers(0, usable), min_size=1, max_size=8))
    return sizes, usable, draw(st.none() | st.integers(1, 4))


@given(worlds())
@settings(max_examples=examples(120))
def test_a_full_plan_has_the_fewest_tasks_and_then_the_lowest_maximum(
    world: tuple[list[int], int, int | None],
) -> None:
    sizes, usable, cap = world
    answer = plan(
        loads_of(sizes), TaskCapacity(usable, None, 100), TaskLimits(max_partitions_per_task=cap), Policy()
    )
    assert answer.tasks == answer.required_tasks == fewest_tasks_by_exhaustion(sizes, usable, cap)
    assert answer.task_lower_bound <= answer.tasks
    assert answer.max_load == lowest_maximum_by_exhaustion(sizes, answer.tasks, cap)
    assert answer.max_load_lower_bound <= answer.max_load


@given(worlds(), st.data())
@settings(max_examples=examples(120))
def test_an_incremental_plan_moves_the_fewest_bytes(
    world: tuple[list[int], int, int | None], data: st.DataObject
) -> None:
    sizes, usable, cap = world
    tasks = min(len(sizes), fewest_tasks_by_exhaustion(sizes, usable, cap) + data.draw(st.integers(0, 1)))
    drawn = data.draw(st.lists(st.integers(-1, tasks - 1), min_size=len(sizes), max_size=len(sizes)))
    present = sorted(set(drawn) - {-1})
    home = [present.index(task) if task >= 0 else -1 for task in drawn]
    limits = TaskLimits(min_tasks=tasks, max_partitions_per_task=cap)
    answer = plan(
        loads_of(sizes),
        TaskCapacity(usable, None, 100),
        limits,
        Policy(mode=PlanMode.INCREMENTAL),
        tasks_of(home),
    )
    least = fewest_moved_by_exhaustion(sizes, home, tasks, usable, cap)
    assert answer.tasks == tasks
    assert not answer.overloaded
    assert answer.moved_bytes_per_second == (least if present else 0)
    assert answer.moved_lower_bound <= answer.moved_bytes_per_second


@given(worlds(), st.data())
@settings(max_examples=examples(150))
def test_giving_up_tasks_moves_no_fewer_bytes_than_is_said(
    world: tuple[list[int], int, int | None], data: st.DataObject
) -> None:
    sizes, usable, _ = world
    tasks = fewest_tasks_by_exhaustion(sizes, usable, None)
    names = st.integers(0, tasks + 1)
    drawn = data.draw(st.lists(names, min_size=len(sizes), max_size=len(sizes)))
    present = sorted(set(drawn))
    if len(present) <= tasks:
        return
    home = [present.index(task) for task in drawn]
    limits, policy = TaskLimits(max_tasks=tasks), Policy(mode=PlanMode.INCREMENTAL)
    answer = plan(loads_of(sizes), TaskCapacity(usable, None, 100), limits, policy, tasks_of(home))
    least = float("inf")
    for kept in combinations(range(len(present)), tasks):
        staying = [kept.index(task) if task in kept else -1 for task in home]
        given_up = sum(size for size, task in zip(sizes, staying, strict=True) if task < 0)
        least = min(least, given_up + fewest_moved_by_exhaustion(sizes, staying, tasks, usable))
    assert answer.tasks == tasks
    assert answer.moved_lower_bound <= least
    assert answer.overloaded or least <= answer.moved_bytes_per_second
