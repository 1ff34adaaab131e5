"""Moves of incremental plans compared with the lower bounds on moved bytes and on moves.

Tasks are level at first. Then every load is multiplied by a lognormal factor, so that some tasks are above
their usable capacity.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Final, NamedTuple
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.stages import fewer_moves
from bench.placement.landau import fewest_moves
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

SIZES: Final = ((100, 15), (120, 20), (160, 30), (1_000, 40))
"""Partitions and tasks."""
FILLS: Final = (0.9, 0.95)
SEEDS: Final = (1, 2, 3, 4)
SLACK: Final = 0.1
_USABLE: Final = 10_000
_LEAST: Final = Policy(mode=PlanMode.INCREMENTAL, settling=1, full_move_cost=None)
METHODS: Final = (
    ("fewest bytes", 0.0, 0),
    ("heuristic", SLACK, 0),
    ("ours", SLACK, fewer_moves.SOLVER_CELLS),
)
"""Names, with the share of further bytes that may move, and the cells up to which the solver is used."""


class Score(NamedTuple):
    """Result of one plan. `moves`, `bound`: partitions. `bytes_ratio`: moved bytes divided by their bound.
    `seconds`: CPU time."""

    moves: int
    bound: int
    bytes_ratio: float
    seconds: float


def drifted(
    partitions: int, tasks: int, fill: float, seed: int
) -> tuple[PartitionLoads, npt.NDArray[np.int32]]:
    """Return random loads that fill tasks to the share `fill` on average, and the task of each partition."""
    random = np.random.default_rng([seed, partitions, tasks])
    before = random.uniform(0.1, 1, partitions)
    home, carried = np.zeros(partitions, np.int32), np.zeros(tasks)
    for one in np.argsort(-before):
        home[one] = int(np.argmin(carried))
        carried[home[one]] += before[one]
    now = before * random.lognormal(0, 0.2, partitions)
    rates = np.zeros((partitions, 2))
    rates[:, 0] = np.round(now * fill * _USABLE * tasks / now.sum())
    names = tuple(TopicPartition("t", number) for number in range(partitions))
    return PartitionLoads(names, rates, np.zeros(partitions, np.int8)), home


def measure(loads: PartitionLoads, home: npt.NDArray[np.int32], slack: float, cells: int) -> Score:
    """Plan once and return the result."""
    policy = replace(_LEAST, move_slack=slack)
    with patch.object(fewer_moves, "SOLVER_CELLS", cells):
        began = time.process_time()
        answer = plan(loads, TaskCapacity(_USABLE, None, 100), TaskLimits(), policy, home)
        seconds = time.process_time() - began
    sizes = loads.rates[:, 0].astype(np.int64)
    bound = fewest_moves(sizes, home, answer.alive, _USABLE)
    ratio = answer.moved_bytes_per_second / answer.moved_lower_bound if answer.moved_lower_bound else 1.0
    return Score(answer.moved_partitions, bound, ratio, seconds)


def row(scores: Sequence[Score]) -> str:
    """Return the sums of moves and of bounds, the mean ratio of bytes, and the CPU seconds."""
    moves, bound = (sum(getattr(score, name) for score in scores) for name in ("moves", "bound"))
    ratio = float(np.mean([score.bytes_ratio for score in scores]))
    most = max(score.seconds for score in scores)
    return f"{moves:5} {bound:5} {moves / max(bound, 1):5.2f} {ratio:5.2f} {most:6.2f}"


def main() -> None:
    """Print moves and bounds (sums over the seeds), their ratio, the ratio of bytes to their bound, and the
    slowest plan."""
    columns = " | ".join(f"{name}: moves, bound, x, bytes x, s" for name, _, _ in METHODS)
    print(f"partitions tasks  fill | {columns}")
    for (partitions, tasks), fill in product(SIZES, FILLS):
        cases = [drifted(partitions, tasks, fill, seed) for seed in SEEDS]
        found = [row([measure(*case, slack, cells) for case in cases]) for _, slack, cells in METHODS]
        print(f"{partitions:10} {tasks:5} {fill:5.2f} | {' | '.join(found)}", flush=True)


if __name__ == "__main__":
    main()
