"""Number of tasks added while the load doubles over several observations, with and without projecting its
growth.

The load needs 5 tasks, then doubles in equal steps, then stays. Projection adds the tasks for the load that
the growth would reach some observations later.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import TaskOf
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

PARTITIONS: Final = tuple(TopicPartition("t", number) for number in range(500))
BEFORE: Final = 5
"""Tasks that the load needs at first; it doubles."""
LENGTHS: Final = (1, 2, 3, 4, 6, 9, 12, 18, 36)
AHEAD: Final = (0, 1, 3)
"""Observations by which the growth is projected; 0: not."""
REMEMBERED: Final = 8
_POLICY: Final = Policy(mode=PlanMode.INCREMENTAL, exact_cells=0)
_CAPACITY: Final = TaskCapacity(1_200, None, 100)
_RATE: Final = 12
"""Bytes per second of each partition at first."""


class Outcome(NamedTuple):
    """Result for a growing load. `additions`: plans that added tasks. `most`: tasks at the end. `missing`:
    tasks below the need, summed over the observations."""

    additions: int
    most: int
    missing: int


def outcome(length: int, ahead: int) -> Outcome:
    """Plan after each observation of a load that doubles in `length` observations."""
    ramp = [1 + number / length for number in range(1, length + 1)]
    levels = [1.0] * 4 + ramp + [2.0] * 6
    task_of: TaskOf | None = None
    counts, missing = [BEFORE], 0
    for number in range(len(levels)):
        loads = _loads(levels[: number + 1][-REMEMBERED:])
        answer = plan(loads, _CAPACITY, TaskLimits(), _POLICY, task_of)
        if answer.tasks > counts[-1] and ahead:
            least = TaskLimits(min_tasks=_projected(levels[: number + 1], ahead))
            answer = plan(loads, _CAPACITY, least, _POLICY, task_of)
        task_of = np.asarray(np.unique(answer.task_of, return_inverse=True)[1].astype(np.int32))
        missing += max(0, _needed(levels[number]) - answer.tasks)
        counts.append(answer.tasks)
    return Outcome(sum(before < after for before, after in pairwise(counts)), counts[-1], missing)


def _loads(levels: Sequence[float]) -> PartitionLoads:
    rates = np.array([np.full((len(PARTITIONS), 2), level * _RATE) for level in levels])
    return PartitionLoads(PARTITIONS, rates[-1], np.zeros(len(PARTITIONS), np.int8), rates[:-1])


def _needed(level: float) -> int:
    return -(-round(level * _RATE * len(PARTITIONS)) // _CAPACITY.usable_bytes_per_second)


def _projected(levels: Sequence[float], ahead: int) -> int:
    """Return the tasks needed if the load continues to grow as in the last observations."""
    newest = levels[-_POLICY.settling :]
    return _needed(newest[-1] + ahead * max(0.0, newest[-1] - newest[0]) / (len(newest) - 1))


def main() -> None:
    """Print additions, final tasks (10 are needed) and missing task-observations, without and with
    projection."""
    print(f"observations | {' | '.join(f'ahead {ahead}: additions, tasks, missing' for ahead in AHEAD)}")
    for length in LENGTHS:
        cells = (
            f"{one.additions:18} {one.most:6} {one.missing:8}"
            for one in (outcome(length, ahead) for ahead in AHEAD)
        )
        print(f"{length:12} | {' | '.join(cells)}")


if __name__ == "__main__":
    main()
