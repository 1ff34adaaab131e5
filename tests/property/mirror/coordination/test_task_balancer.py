"""Placement of tasks on instances, for any tasks, loads and weights."""

from __future__ import annotations

import math
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mirror.coordination.stores.membership import LiveInstance
from mirror.coordination.task_balancer import TaskLoad, balance_tasks
from mirror.model.identifiers import InstanceName, TaskName
from tests.builders import an_instance

HOMES = ["a", "b", "c", "d", "gone", None]


@st.composite
def task_loads(draw: st.DrawFn) -> list[TaskLoad]:
    count = draw(st.integers(0, 14))
    return [
        TaskLoad(
            TaskName(f"t-{number}"),
            draw(st.sampled_from([0.0, 1.0, 2.0, 50.0, 1e9])),
            (lambda home: InstanceName(home) if home else None)(draw(st.sampled_from(HOMES))),
        )
        for number in range(count)
    ]


@st.composite
def instances(draw: st.DrawFn, weights: st.SearchStrategy[float]) -> list[LiveInstance]:
    names = draw(st.sets(st.sampled_from(["a", "b", "c", "d"])))
    return [an_instance(name, number, draw(weights)) for number, name in enumerate(sorted(names))]


equal = st.just(1.0)
unequal = st.sampled_from([0.5, 1.0, 2.0, 3.0])


@given(task_loads(), instances(unequal))
def test_every_task_is_placed_once_on_somebody_who_is_here(
    tasks: list[TaskLoad], live: list[LiveInstance]
) -> None:
    placed = balance_tasks(tasks, live)
    assert set(placed) == {task.task for task in tasks}
    here = {instance.name for instance in live}
    assert all(home in here if here else home is None for home in placed.values())


@given(task_loads(), instances(unequal))
def test_nobody_has_less_than_the_floor_or_more_than_the_ceiling_of_its_share(
    tasks: list[TaskLoad], live: list[LiveInstance]
) -> None:
    counts = Counter(balance_tasks(tasks, live).values())
    total = sum(instance.weight for instance in live)
    for instance in live:
        share = len(tasks) * instance.weight / total
        assert math.floor(share) <= counts[instance.name] <= math.ceil(share)


@given(task_loads(), instances(equal))
def test_a_spread_that_is_fair_already_is_left_alone(tasks: list[TaskLoad], live: list[LiveInstance]) -> None:
    first = balance_tasks(tasks, live)
    settled = [TaskLoad(task.task, task.bytes_per_second, first[task.task]) for task in tasks]
    assert balance_tasks(settled, live) == first


@given(task_loads(), instances(equal))
def test_only_as_many_tasks_move_as_must(tasks: list[TaskLoad], live: list[LiveInstance]) -> None:
    """Moved tasks: the unplaced ones, those above the ceilings, and those missing to reach the floors."""
    if not live:
        return
    placed = balance_tasks(tasks, live)
    names = {instance.name for instance in live}
    unplaced = sum(task.instance not in names for task in tasks)
    before = Counter(task.instance for task in tasks if task.instance in names)
    floor, ceiling = len(tasks) // len(live), math.ceil(len(tasks) / len(live))
    surplus = sum(max(0, before[name] - ceiling) for name in names)
    missing = sum(max(0, floor - before[name]) for name in names)
    moved = sum(task.instance in names and placed[task.task] != task.instance for task in tasks)
    assert moved == max(surplus, missing - unplaced)


@given(task_loads(), instances(unequal), st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    tasks: list[TaskLoad], live: list[LiveInstance], random: Random
) -> None:
    shuffled_tasks, shuffled_live = list(tasks), list(live)
    random.shuffle(shuffled_tasks)
    random.shuffle(shuffled_live)
    assert balance_tasks(shuffled_tasks, shuffled_live) == balance_tasks(tasks, live)


@given(task_loads(), instances(unequal))
def test_levelling_changes_nothing_about_the_counts_and_makes_nobody_fuller_than_the_fullest(
    tasks: list[TaskLoad], live: list[LiveInstance]
) -> None:
    plain, level = balance_tasks(tasks, live), balance_tasks(tasks, live, 1.2)
    total = sum(instance.weight for instance in live)
    fullest = []
    for placed in (plain, level):
        loads = dict.fromkeys((instance.name for instance in live), 0.0)
        for task in tasks:
            home = placed[task.task]
            if home is not None:
                loads[home] += task.bytes_per_second
        fullest.append(max((loads[one.name] / one.weight for one in live), default=0.0))
        counts = Counter(placed.values())
        for instance in live:
            share = len(tasks) * instance.weight / total
            assert math.floor(share) <= counts[instance.name] <= math.ceil(share)
    assert fullest[1] <= fullest[0] + 1e-6


@given(task_loads(), instances(unequal))
def test_a_levelled_spread_is_left_alone(tasks: list[TaskLoad], live: list[LiveInstance]) -> None:
    first = balance_tasks(tasks, live, 1.2)
    settled = [TaskLoad(task.task, task.bytes_per_second, first[task.task]) for task in tasks]
    assert balance_tasks(settled, live, 1.2) == first
