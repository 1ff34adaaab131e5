"""Moves require a gain: a rebalance with too small a gain moves nothing, whatever the loads."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.planner import LoadPlanner
from assigner.settings import AssignerSettings
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import GroupPlan, PlanningRequest
from mirror.model.topics import TopicPartition
from tests.examples import examples

USABLE: Final = 100_000
GAIN: Final = AssignerSettings().rebalance_gain
EFFORT: Final = examples(100) / 100
"""A tenth in `make test`, like the number of examples: the solver would use most of the time."""
PLANNER: Final = LoadPlanner(AssignerSettings.model_validate({"effort": EFFORT}).policy())


@st.composite
def requests(draw: st.DrawFn, heaviest: int) -> PlanningRequest:
    """Draw placed partitions, some without load; `min_tasks` keeps every task."""
    count, tasks = draw(st.integers(2, 20)), draw(st.integers(2, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rates = random.pareto(1.2, count)
    rates *= heaviest / rates.max()
    if draw(st.booleans()):
        rates = np.ceil(rates * 5 / heaviest) * heaviest / 5  # so coarse that the level is rarely reached
    rates[random.random(count) < draw(st.sampled_from([0.0, 0.5]))] = 0
    names = [TopicPartition("t", number) for number in range(count)]
    homes = [number if number < tasks else int(random.integers(tasks)) for number in range(count)]
    current = {one: TaskName(f"d-{home}") for one, home in zip(names, homes, strict=True)}
    loads = {one: PartitionLoad(float(rate)) for one, rate in zip(names, rates, strict=True)}
    return PlanningRequest(
        group=GroupName("d"),
        partitions=tuple(names),
        loads=loads,
        capacity=TaskCapacity(USABLE, None, 100),
        limits=TaskLimits(min_tasks=min(tasks, count)),
        current=current,
        rebalance=True,
        recent=(loads, loads),
    )


def moved(request: PlanningRequest, plan: GroupPlan) -> list[TopicPartition]:
    after = {one: task for task, held in plan.tasks.items() for one in held}
    return [one for one in request.partitions if after.get(one) != request.current[one]]


def fullest(request: PlanningRequest) -> float:
    sums: dict[TaskName, float] = {}
    for one, task in request.current.items():
        sums[task] = sums.get(task, 0.0) + request.loads[one].bytes_per_second
    return max(sums.values())


@given(requests(heaviest=100))
@settings(max_examples=examples(40))
def test_a_rebalance_far_below_capacity_moves_nothing(request: PlanningRequest) -> None:
    plan = PLANNER.plan(request)
    assert moved(request, plan) == []
    assert not plan.move_reasons


@given(requests(heaviest=8_000), st.booleans())
@settings(max_examples=examples(40))
def test_giving_up_tasks_moves_only_their_partitions(request: PlanningRequest, rebalance: bool) -> None:
    asked = replace(request, rebalance=rebalance, limits=TaskLimits())
    plan = PLANNER.plan(asked)
    kept = {task for task, held in plan.tasks.items() if held}
    assert all(request.current[one] not in kept for one in moved(asked, plan))


@given(requests(heaviest=30_000))
@settings(max_examples=examples(40))
def test_what_a_rebalance_moves_brings_the_fullest_task_down(request: PlanningRequest) -> None:
    plan, before = PLANNER.plan(request), fullest(request)
    after = max(plan.loads_bytes_per_second.values())
    assert not moved(request, plan) or before > USABLE or before - after >= GAIN * USABLE - 1


@given(requests(heaviest=40_000), st.booleans())
@settings(max_examples=examples(40))
def test_a_partition_that_carries_nothing_stays_where_its_task_stays(
    request: PlanningRequest, rebalance: bool
) -> None:
    plan = PLANNER.plan(replace(request, rebalance=rebalance))
    silent = [one for one in moved(request, plan) if not request.loads[one].bytes_per_second]
    owners = {task for task, held in plan.tasks.items() if held & set(plan.offending)}
    assert all(request.current[one] not in plan.tasks or request.current[one] in owners for one in silent)
