"""The public benchmark of consumer-group packing: load moved and tasks, Headrace and published figures.

Problem and sequence are from D. Landau et al., "Kafka consumer group autoscaler", JPDC 2025 (repository
landaudiogo/kafka-consumer-group-autoscaler): 200 partitions in two topics, each 0 to 100 % of a consumer; in
every step each changes by a uniform integer of at most δ either way, within 0 to 100. R is the load moved in
a step in units of one consumer; surplus is the number of consumers above that of best fit decreasing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from multiprocessing import get_context
from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.bounds.lower_bounds import moves_bound
from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from assigner.search.greedy import best_fit
from mirror.model.load import TaskCapacity, TaskLimits
from mirror.model.topics import TopicPartition

LoadSequence = npt.NDArray[np.int64]
"""Percent of a consumer, int64[steps, partitions]."""

FULL: Final = 100
PARTITIONS: Final = 200
DELTAS: Final = (5, 10, 15, 20, 25)
HEADROOMS: Final = (0.0, 0.02, 0.05, 0.1)
SLACKS: Final = (0.0, 0.1)
STARTS: Final = ("uniform", "0", "50", "100")
_SEEDS: Final = (1, 2, 3)
_CAPACITY: Final = TaskCapacity(FULL, None, 100)

PUBLISHED: Final = {
    5: ((9.2, 11.8), (16.0, 3.8), (23.1, 0.2), (24.2, 0.0)),
    10: ((11.8, 11.5), (18.9, 3.2), (24.2, 0.3), (25.5, 0.0)),
    15: ((12.8, 10.5), (19.9, 2.6), (24.0, 0.2), None),
    20: ((13.8, 9.4), (20.6, 2.2), (23.8, 0.2), None),
    25: ((15.0, 8.8), (21.5, 1.8), (24.1, 0.1), None),
}
"""(R, surplus in percent) of MWF, MBF, MBFP and BFD by δ.

Averages of `uniform_start.csv` in landaudiogo/thesis_data. These methods make the same moves as a consumer
group's assignor.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One sequence of loads, the headroom that must remain before a task is removed, and the bytes that fewer
    moves may cost."""

    start: str
    delta: int
    seed: int
    headroom: float
    slack: float
    steps: int


@dataclass(frozen=True, slots=True)
class Score:
    """Means over all steps. `moved`, `bound`: in loads of a consumer. `moves`, `moves_bound`: partitions.

    `surplus`: share of the tasks of best fit decreasing. `overloaded`: tasks above capacity in all steps.
    `cpu`, `slowest`: seconds of a plan.
    """

    moved: float
    bound: float
    moves: float
    moves_bound: float
    surplus: float
    overloaded: int
    cpu: float
    slowest: float


def sequence(start: str, delta: int, seed: int, steps: int) -> LoadSequence:
    """Return the initial loads, followed by the loads of `steps` steps."""
    random = np.random.default_rng([seed, delta])
    now = random.integers(0, FULL + 1, PARTITIONS) if start == "uniform" else np.full(PARTITIONS, int(start))
    found = [now]
    for _ in range(steps):
        now = np.clip(now + random.integers(-delta, delta + 1, PARTITIONS), 0, FULL)
        found.append(now)
    return np.array(found, np.int64)


def fewest_by_best_fit(loads: npt.NDArray[np.int64]) -> int:
    """Return the number of consumers that best fit decreasing uses."""
    return int(best_fit(-np.sort(-loads), FULL, len(loads)).max()) + 1


def measure(case: Case) -> Score:
    """Plan each step of the sequence from the previous placement."""
    names = [TopicPartition(f"topic-{number % 2}", number // 2) for number in range(PARTITIONS)]
    policy = Policy(
        mode=PlanMode.INCREMENTAL, scale_in_headroom=case.headroom, settling=1, move_slack=case.slack
    )
    current: npt.NDArray[np.int32] | None = None
    moved, bounds, moves, move_bounds, tasks, least, seconds = [], [], [], [], [], [], []
    overloaded = 0
    for loads in sequence(case.start, case.delta, case.seed, case.steps):
        rates = np.zeros((PARTITIONS, 2))
        rates[:, 0] = loads
        question = PartitionLoads(tuple(names), rates, np.zeros(PARTITIONS, np.int8))
        began = time.process_time()
        answer = plan(question, _CAPACITY, TaskLimits(), policy, current)
        seconds.append(time.process_time() - began)
        if current is not None:
            moved.append(answer.moved_bytes_per_second / FULL)
            bounds.append(answer.moved_lower_bound / FULL)
            moves.append(answer.moved_partitions)
            move_bounds.append(fewest_moves(loads, current, answer.alive))
            tasks.append(answer.tasks)
            least.append(fewest_by_best_fit(loads))
            overloaded += len(answer.overloaded)
        current = _closed_up(answer.task_of)
    surplus = sum(tasks) / sum(least) - 1
    return Score(
        float(np.mean(moved)),
        float(np.mean(bounds)),
        float(np.mean(moves)),
        float(np.mean(move_bounds)),
        surplus,
        overloaded,
        float(np.mean(seconds)),
        max(seconds),
    )


def fewest_moves(
    loads: npt.NDArray[np.int64],
    current: npt.NDArray[np.int32],
    alive: npt.NDArray[np.bool_],
    room: int = FULL,
) -> int:
    """Return a lower bound on the moves of any plan with these tasks; partitions of removed tasks move."""
    stays = alive[current]
    homes = np.where(stays, current, -1).astype(np.int32)
    return int((~stays).sum()) + moves_bound(loads[:, None], homes, np.array([room]))


def _closed_up(task_of: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    return np.asarray(np.unique(task_of, return_inverse=True)[1].astype(np.int32))


def row(case: Case, scores: Sequence[Score]) -> str:
    """Return the table row of one start, δ and headroom: means over the seeds."""
    moved, bound, moves, moves_bound, surplus, cpu = (
        float(np.mean([getattr(score, name) for score in scores]))
        for name in ("moved", "bound", "moves", "moves_bound", "surplus", "cpu")
    )
    ratio = moved / bound if bound else float("nan")
    return (
        f"{case.start:>7} {case.delta:3} {case.headroom:9.2f} {case.slack:6.2f} | "
        f"{moved:6.2f} {bound:6.2f} {ratio:6.2f} | {moves:6.2f} {moves_bound:6.2f} | "
        f"{100 * surplus:8.2f} % | {sum(score.overloaded for score in scores):4} | {cpu:6.3f} "
        f"{max(score.slowest for score in scores):6.3f}"
    )


def _print_published() -> None:
    print("published, uniform start, 501 steps: R at surplus")
    print("  δ |            MWF |            MBF |           MBFP |            BFD")
    for delta, found in PUBLISHED.items():
        cells = [f"{one[0]:5.1f} at {one[1]:4.1f} %" if one else f"{'-':>14}" for one in found]
        print(f"{delta:3} | {' | '.join(cells)}")


def main() -> None:
    """Print R, its bound and their ratio, tasks above best fit decreasing or capacity, and seconds per plan.

    Environment: STEPS (500), STARTS (uniform,0,50,100), DELTAS, HEADROOMS, SLACKS and PROCESSES (1).
    """
    steps = int(os.environ.get("STEPS", "500"))
    starts = os.environ.get("STARTS", ",".join(STARTS)).split(",")
    deltas = [int(one) for one in os.environ.get("DELTAS", ",".join(map(str, DELTAS))).split(",")]
    slacks = [float(one) for one in os.environ.get("SLACKS", ",".join(map(str, SLACKS))).split(",")]
    headrooms = [float(one) for one in os.environ.get("HEADROOMS", ",".join(map(str, HEADROOMS))).split(",")]
    _print_published()
    print(f"\nours, {steps} steps, means of seeds {', '.join(map(str, _SEEDS))}")
    print(
        "  start   δ  headroom  slack |      R  bound      x |  moves  bound |  surplus | over | CPU s  most"
    )
    processes = int(os.environ.get("PROCESSES", "1"))
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [
            (
                case,
                [pool.submit(measure, replace(case, seed=seed)) for seed in _SEEDS],
            )
            for start, delta, headroom, slack in product(starts, deltas, headrooms, slacks)
            for case in [Case(start, delta, 0, headroom, slack, steps)]
        ]
        for case, scores in waiting:
            print(row(case, [score.result() for score in scores]), flush=True)
