"""Plans with fewer moves never cost more bytes than the slack, nor a task, nor an overload."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.stages import fewer_moves
from bench.assigner.fewer import drifted, measure
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition
from tests.examples import examples

SLACK = 0.1
LEAST = Policy(mode=PlanMode.INCREMENTAL, settling=1)


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(2, 60),
    tasks=st.integers(1, 6),
    rebalance=st.booleans(),
    messages=st.booleans(),
    most=st.sampled_from([None, 10, 30]),
)
def test_fewer_moves_keep_what_the_fewest_bytes_promise(
    seed: int, count: int, tasks: int, rebalance: bool, messages: bool, most: int | None
) -> None:
    random = np.random.default_rng(seed)
    rates = np.round(random.pareto(1.5, (count, 2)) * 1000, 0) + 1
    home = random.integers(-1, tasks, count).astype(np.int32)
    usable = max(int(rates.max()), int(1.3 * rates.sum(axis=0).max() / tasks)) + 1
    loads = PartitionLoads(
        tuple(TopicPartition("t", number) for number in range(count)), rates, np.zeros(count, np.int8)
    )
    capacity = TaskCapacity(usable, usable if messages else None, 100)
    limits = TaskLimits(min_tasks=min(tasks, count), max_partitions_per_task=most)
    policy = replace(LEAST, rebalance=rebalance)
    least = plan(loads, capacity, limits, policy, home)
    fewer = plan(loads, capacity, limits, replace(policy, move_slack=SLACK), home)
    assert fewer.tasks == least.tasks
    assert fewer.moved_partitions <= least.moved_partitions
    most_bytes = max(least.moved_bytes_per_second, least.moved_lower_bound * (1 + SLACK))
    assert fewer.moved_bytes_per_second <= most_bytes + 0.01
    assert len(fewer.overloaded) <= len(least.overloaded)


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(4, 8), tasks=st.integers(2, 3))
def test_no_plan_within_the_slack_takes_fewer_moves(seed: int, count: int, tasks: int) -> None:
    random = np.random.default_rng(seed)
    rates = np.zeros((count, 2))
    rates[:, 0] = np.round(random.pareto(1.2, count) * 20) + 1
    home = random.integers(0, tasks, count).astype(np.int32)
    home[:tasks] = np.arange(tasks)
    usable = max(int(rates.max()), int(1.15 * rates[:, 0].sum() / tasks) + 1)
    loads = PartitionLoads(
        tuple(TopicPartition("t", number) for number in range(count)), rates, np.zeros(count, np.int8)
    )
    capacity, limits = TaskCapacity(usable, None, 100), TaskLimits(min_tasks=tasks, max_tasks=tasks)
    least = plan(loads, capacity, limits, LEAST, home)
    fewer = plan(loads, capacity, limits, replace(LEAST, move_slack=SLACK), home)
    if fewer.overloaded:
        return  # no placement within capacity was found
    most_bytes = max(least.moved_bytes_per_second, least.moved_lower_bound * (1 + SLACK)) + 0.001
    for chosen in product(range(tasks), repeat=count):
        task_of = np.array(chosen)
        moves = task_of != home
        if moves.sum() < fewer.moved_partitions and rates[moves, 0].sum() <= most_bytes:
            assert max(rates[task_of == task, 0].sum() for task in range(tasks)) > usable


def test_the_solver_finds_fewer_moves_among_some_thousand_cells() -> None:
    """What the heuristic takes for a relief in two moves may be one."""
    scores = [measure(*drifted(120, 20, 0.95, seed), SLACK, fewer_moves.SOLVER_CELLS) for seed in (1, 2)]
    assert sum(one.moves for one in scores) <= 1 + sum(one.bound for one in scores)
