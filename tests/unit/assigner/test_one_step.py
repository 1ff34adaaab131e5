"""Tasks are added and removed in one step after a permanent change of load, whatever its course."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

import numpy as np
import pytest

from assigner.planner import LoadPlanner
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import build_problem
from assigner.settings import AssignerSettings
from assigner.stages.hysteresis import task_count
from mirror.model.identifiers import GroupName, TaskName
from mirror.model.load import PartitionLoad, TaskCapacity, TaskLimits
from mirror.model.plan import PlanningRequest
from mirror.model.topics import TopicPartition

PARTITIONS: Final = tuple(TopicPartition("t", number) for number in range(40))
REMEMBERED: Final = 8
"""Number of observations used by a plan."""
PLANNER: Final = LoadPlanner(AssignerSettings.model_validate({"exact_cells": 0, "effort": 0.1}).policy())


def task_counts(levels: Sequence[float]) -> list[int]:
    """Return the task counts of consecutive plans, each with earlier observations.

    A level of 1 needs about five tasks.
    """
    current: dict[TopicPartition, TaskName] = {}
    seen: list[dict[TopicPartition, PartitionLoad]] = []
    found = []
    for level in levels:
        loads = {one: PartitionLoad(level * (11.0 + number % 3)) for number, one in enumerate(PARTITIONS)}
        request = PlanningRequest(
            group=GroupName("d"),
            partitions=PARTITIONS,
            loads=loads,
            capacity=TaskCapacity(100, None, 100),
            limits=TaskLimits(),
            current=current,
        )
        plan = PLANNER.plan(replace(request, recent=tuple(seen)))
        current = {one: task for task, held in plan.tasks.items() for one in held}
        found.append(sum(bool(held) for held in plan.tasks.values()))
        seen = [*seen, loads][-REMEMBERED:]
    return found


def changes(counts: Sequence[int]) -> list[tuple[int, int]]:
    return [(before, after) for before, after in pairwise(counts) if before != after]


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_load_that_doubles_adds_all_tasks_at_once(steps: int) -> None:
    """The rate measured by a provider over a window rises step by step."""
    ramp = [1 + number / steps for number in range(1, steps + 1)]
    assert changes(task_counts([1.0] * 4 + ramp + [2.0] * 6)) == [(5, 10)]


def test_while_growth_goes_on_tasks_are_added_for_the_newest_observation() -> None:
    """The ramp takes longer than the plan waits for confirmation."""
    assert changes(task_counts([1.0] * 4 + [1.25, 1.5, 1.75, 2.0] + [2.0] * 4)) == [(5, 9), (9, 10)]


@pytest.mark.parametrize("steps", [4, 6, 9, 12])
def test_a_longer_ramp_takes_a_step_for_three_observations_at_most(steps: int) -> None:
    """Where it will stop is not known; tasks for a projection of it would stay (`bench assigner_ramps`)."""
    ramp = [1 + number / steps for number in range(1, steps + 1)]
    found = changes(task_counts([1.0] * 4 + ramp + [2.0] * 6))
    assert len(found) <= -(-steps // 3)
    assert found[-1][1] == 10


def test_a_spike_beside_growth_that_is_over_adds_no_more() -> None:
    assert changes(task_counts([1.0] * 4 + [1.5, 1.5, 1.5, 1.5, 2.5])) == [(5, 8)]


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 6])
def test_a_load_that_halves_gives_up_its_tasks_at_once(steps: int) -> None:
    ramp = [2 - number / steps for number in range(1, steps + 1)]
    counts = task_counts([2.0] * 4 + ramp + [1.0] * (2 * REMEMBERED))
    assert len(changes(counts)) == 1
    assert counts[-1] < counts[0]


def test_noise_on_a_fall_does_not_keep_the_tasks_for_good() -> None:
    noisy = [1.0, 1.04, 0.97, 1.02, 0.99, 1.03, 0.98, 1.01] * 3
    assert changes(task_counts([2.0] * 4 + noisy)) == [(10, 7)]


@pytest.mark.parametrize(
    ("totals", "is_for_the_newest"), [((700, 900, 1100), True), ((900, 900, 1100), False)]
)
def test_the_newest_observation_counts_only_while_growth_goes_on(
    totals: tuple[int, int, int], is_for_the_newest: bool
) -> None:
    rates = [np.full((100, 2), total / 100) for total in totals]
    loads = PartitionLoads(
        tuple(TopicPartition("t", number) for number in range(100)),
        rates[-1],
        np.zeros(100, np.int8),
        np.array(rates[:-1]),
    )
    home = (np.arange(100) % 5).astype(np.int32)
    problem = build_problem(loads, TaskCapacity(100, None, 100), TaskLimits(), home)
    count = task_count(problem, Policy(mode=PlanMode.INCREMENTAL))
    assert count.wanted > 5
    assert (count.wanted == count.needed) == is_for_the_newest
