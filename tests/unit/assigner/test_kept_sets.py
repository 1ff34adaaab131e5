"""Few coarse partitions that drift: as few tasks as best fit decreasing, and moves close to the bound."""

from __future__ import annotations

import numpy as np
import pytest

from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.search.greedy import best_fit
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

_PARTITIONS = 60
_STEPS = 4
_CAPACITY = TaskCapacity(100, None, 100)
_POLICY = Policy(mode=PlanMode.INCREMENTAL, scale_in_headroom=0.0, settling=1)


@pytest.mark.parametrize("drift", [5, 25])
def test_drift_moves_little_on_the_fewest_tasks(drift: int) -> None:
    random = np.random.default_rng(drift)
    names = tuple(TopicPartition("orders", number) for number in range(_PARTITIONS))
    sizes, current = random.integers(0, 101, _PARTITIONS), None
    moved, bound, tasks, fewest = 0.0, 0.0, 0, 0
    for _ in range(_STEPS):
        rates = np.zeros((_PARTITIONS, 2))
        rates[:, 0] = sizes
        loads = PartitionLoads(names, rates, np.zeros(_PARTITIONS, np.int8))
        answer = plan(loads, _CAPACITY, TaskLimits(), _POLICY, current)
        assert not len(answer.overloaded)
        assert answer.moved_bytes_per_second >= answer.moved_lower_bound
        if current is not None:
            moved += answer.moved_bytes_per_second
            bound += answer.moved_lower_bound
            tasks += answer.tasks
            fewest += int(best_fit(-np.sort(-sizes), 100, _PARTITIONS).max()) + 1
        current = np.unique(answer.task_of, return_inverse=True)[1].astype(np.int32)
        sizes = np.clip(sizes + random.integers(-drift, drift + 1, _PARTITIONS), 0, 100)
    assert moved <= 1.3 * bound
    assert tasks <= fewest
