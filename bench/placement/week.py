"""A simulated week: round robin, Brooklin's greedy, uReplicator's 1.2x rule and Headrace on the same load."""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from assigner.planner import plan
from assigner.problem.loads import PartitionLoads
from assigner.problem.policy import PlanMode, Policy
from bench.placement.loads import (
    CAPACITY,
    USABLE,
    Floats,
    Week,
    loads_of,
    recorded_week,
    synthetic_week,
)
from mirror.model.load import TaskLimits

Tasks = npt.NDArray[np.int64]
"""Task by partition, -1 before the partition exists."""

Strategy = Callable[[Week, int, Tasks], Tasks]
"""Function from the week, the hour and the previous placement to the placement of this hour."""


@dataclass
class Score:
    """Results of a strategy over a week. Shares in percent, moves as a share of all bytes per hour."""

    ratios: list[float] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)
    overloaded: int = 0
    badly: int = 0
    task_hours: int = 0
    moved: list[float] = field(default_factory=list)
    returns: int = 0
    seconds: float = 0.0

    @property
    def reversals(self) -> int:
        """Number of times the task count turned from rising to falling within a day."""
        steps = [(hour, after - before) for hour, (before, after) in enumerate(pairwise(self.tasks))]
        changes = [step for step in steps if step[1]]
        return sum(one[1] > 0 > two[1] and two[0] - one[0] < 24 for one, two in pairwise(changes))


def simulate(week: Week, strategy: Strategy) -> Score:
    """Simulate hour by hour; each placement uses the load of its hour."""
    score = Score()
    placed = np.full(week.rates.shape[1], -1, np.int64)
    left: dict[int, tuple[int, int]] = {}
    for hour in range(len(week.rates)):
        started = time.perf_counter()
        after = strategy(week, hour, placed)
        score.seconds += time.perf_counter() - started
        moved = np.flatnonzero((placed >= 0) & (after != placed))
        for partition in moved.tolist():
            before = left.get(partition)
            score.returns += before is not None and before[1] == after[partition] and hour - before[0] < 24
            left[partition] = hour, int(placed[partition])
        _note(score, week.rates[hour], after, moved)
        placed = after
    return score


def _note(score: Score, rates: Floats, placed: Tasks, moved: Tasks) -> None:
    alive = placed >= 0
    loads = np.bincount(placed[alive], weights=rates[alive])
    used = np.bincount(placed[alive]) > 0
    tasks = max(int(used.sum()), 1)
    score.tasks.append(tasks)
    score.task_hours += tasks
    score.ratios.append(float(loads.max() / loads[used].mean()))
    score.overloaded += int((loads > USABLE).sum())
    score.badly += int((loads > CAPACITY.bytes_per_second).sum())
    score.moved.append(float(rates[moved].sum() / rates.sum()))


def round_robin(week: Week, hour: int, placed: Tasks) -> Tasks:
    """Place like Brooklin without loads: fixed task count, equal partition counts, no moves."""
    tasks = _brooklin_tasks(week)
    return _deal(placed, np.flatnonzero((placed < 0) & (week.born <= hour)), tasks)


def brooklin_greedy(week: Week, hour: int, placed: Tasks) -> Tasks:
    """Place like Brooklin with loads: heaviest to the lightest task once; then round robin, no moves."""
    tasks = _brooklin_tasks(week)
    new = np.flatnonzero((placed < 0) & (week.born <= hour))
    if hour:
        return _deal(placed, new, tasks)
    after = placed.copy()
    heap = [(0, task) for task in range(tasks)]
    kilobytes = (week.rates[0] // 1024).astype(np.int64)
    for partition in new[np.argsort(-kilobytes[new], kind="stable")].tolist():
        load, task = heap[0]
        heapq.heapreplace(heap, (load + int(kilobytes[partition]), task))
        after[partition] = task
    return after


def _brooklin_tasks(week: Week) -> int:
    """Return Brooklin's one-time estimate: the total load over the usable capacity of a task."""
    return int(np.ceil(week.rates[0].sum() / USABLE))


def _deal(placed: Tasks, new: Tasks, tasks: int) -> Tasks:
    """Assign each new partition to the task with the fewest partitions."""
    after = placed.copy()
    counts = np.bincount(placed[placed >= 0], minlength=tasks)
    for partition in new.tolist():
        after[partition] = int(counts.argmin())
        counts[after[partition]] += 1
    return after


def ureplicator(week: Week, hour: int, placed: Tasks) -> Tasks:
    """Place like uReplicator: topic rates over two hours; workers above 1.2x the mean give up partitions.

    Workers: round(bytes / usable capacity) + 1, scaled out at once and in one at a time.
    """
    recent = week.rates[max(0, hour - 1) : hour + 1].max(axis=0)
    born = week.born <= hour
    topics = week.topic_of
    totals = np.bincount(topics[born], weights=recent[born], minlength=int(topics.max()) + 1)
    sizes = np.bincount(topics[born], minlength=len(totals))
    rates = np.where(born, (totals / np.maximum(sizes, 1))[topics], 0.0)
    wanted = round(float(recent[born].sum()) / USABLE) + 1
    present = int(placed.max()) + 1
    workers = wanted if wanted > present or not present else max(wanted, present - 1)
    after = np.where(placed >= workers, -1, placed)
    loads = np.bincount(after[after >= 0], weights=rates[after >= 0], minlength=workers)
    mean = rates.sum() / workers
    homeless = np.flatnonzero(born & (after < 0)).tolist()
    for worker in np.flatnonzero(loads > 1.2 * mean).tolist():
        members = np.flatnonzero(after == worker)
        for partition in members[np.argsort(rates[members], kind="stable")].tolist():
            if loads[worker] <= 1.2 * mean or int((after == worker).sum()) == 1:
                break
            homeless.append(partition)
            after[partition] = -1
            loads[worker] -= rates[partition]
    for partition in sorted(homeless, key=lambda one: (-rates[one], one)):
        after[partition] = int(loads.argmin())
        loads[after[partition]] += rates[partition]
    return after


class Ours:
    """The assigner as the service uses it: incremental, with recent observations."""

    def __init__(self, policy: Policy, patience: int) -> None:
        self._policy = policy
        self._patience = patience

    def __call__(self, week: Week, hour: int, placed: Tasks) -> Tasks:
        """Plan this hour from the previous placement, and number the tasks without gaps."""
        known = np.flatnonzero(week.born <= hour)
        loads = loads_of(week.rates[hour, known])
        first = max(0, hour - self._patience)
        recent = np.zeros((hour - first, len(known), 2))
        recent[:, :, 0] = np.where(
            week.born[known] <= np.arange(first, hour)[:, None],
            week.rates[first:hour, known],
            loads.rates[:, 0],
        )
        loads = PartitionLoads(loads.partitions, loads.rates, loads.levels, recent)
        current = placed[known].astype(np.int32)
        numbers = np.unique(current[current >= 0])
        dense = np.where(current >= 0, np.searchsorted(numbers, current), -1).astype(np.int32)
        answer = plan(loads, CAPACITY, TaskLimits(), self._policy, dense)
        spare = [n for n in range(len(answer.alive) + len(numbers)) if n not in set(numbers.tolist())]
        names = np.array([*numbers.tolist(), *spare])
        after = placed.copy()
        after[known] = names[answer.task_of]
        return after


def strategies() -> dict[str, Strategy]:
    """Return all strategies with their names."""
    calm = Policy(mode=PlanMode.INCREMENTAL, overload_band=0.1, settling=3, effort=0.2)
    eager = Policy(mode=PlanMode.INCREMENTAL, rebalance=True, tolerance=0.05, effort=0.2)
    return {
        "round robin (Brooklin)": round_robin,
        "Brooklin's greedy": brooklin_greedy,
        "uReplicator's 1.2x": ureplicator,
        "ours": Ours(calm, patience=24),
        "ours, 3 h patience": Ours(calm, patience=3),
        "ours, rebalance hourly": Ours(eager, patience=24),
    }


def print_table(title: str, week: Week, chosen: dict[str, Strategy]) -> None:
    """Print one row per strategy."""
    print(f"{title}: {week.rates.shape[1]} partitions, {len(week.rates)} hours")
    print(
        f"{'strategy':24} {'tasks':>9} {'max/mean':>9} {'worst':>6} {'> usable':>9} {'> capacity':>10} "
        f"{'moved/h':>8} {'returns':>8} {'reversals':>9} {'s':>6}"
    )
    for name, strategy in chosen.items():
        score = simulate(week, strategy)
        print(
            f"{name:24} {min(score.tasks):4}-{max(score.tasks):<4} {np.mean(score.ratios):9.3f} "
            f"{max(score.ratios):6.2f} {100 * score.overloaded / score.task_hours:8.2f}% "
            f"{100 * score.badly / score.task_hours:9.2f}% {100 * np.mean(score.moved[1:]):7.3f}% "
            f"{score.returns:8} {score.reversals:9} {score.seconds:6.1f}"
        )
    print()


def main() -> None:
    """Columns: tasks, max/mean over the week and at worst, task-hours above usable and above full
    capacity, bytes moved per hour, partitions that returned within a day, reversals of the task count, time
    to plan."""
    print((main.__doc__ or "") + "\n")
    print_table(
        "A week with days and nights, +-10 % noise, spikes, growth", synthetic_week(2000, 40, 1), strategies()
    )
    print_table("Large daily swing (+-60 %)", synthetic_week(2000, 40, 2, swing=0.6), strategies())
    print_table("Constant, +-10 % noise and spikes", synthetic_week(2000, 40, 3, swing=0.0), strategies())
    print_table("Recording of a real cluster, 10 s per hour", recorded_week(6), strategies())
