"""Placement by bytes and messages that are both nearly at capacity."""

from __future__ import annotations

import time

import numpy as np

from assigner.planner import plan
from bench.placement.loads import USABLE, Floats, draw, loads_of
from mirror.model.load import TaskCapacity

MESSAGES = 10_000
KINDS = ("kafka", "lognormal", "zipf1.0", "uniform", "nearzero")


def both(kind: str, partitions: int, tasks: int, fill: float, seed: int) -> tuple[Floats, Floats]:
    """Return bytes and messages per second of partitions, each `fill` of the total capacity.

    Record sizes differ by topic (sigma 0.7). No partition exceeds 60 % of a task in either dimension.
    """
    random = np.random.default_rng(seed)
    rates = draw(kind, partitions, tasks, seed)
    topics = max(1, partitions // 20)
    record = random.lognormal(0, 0.7, topics)[random.integers(0, topics, partitions)]
    return (
        _scaled(rates, tasks * fill * USABLE, 0.6 * USABLE),
        _scaled(rates / record, tasks * fill * MESSAGES * 0.7, 0.6 * 0.7 * MESSAGES),
    )


def _scaled(values: Floats, total: float, most: float) -> Floats:
    values = np.minimum(values * total / values.sum(), most)
    for _ in range(60):
        free = values < most
        missing = total - values.sum()
        if missing < total * 1e-9:
            break
        values = np.where(free, np.minimum(values * (1 + missing / values[free].sum()), most), values)
    return values


def main() -> None:
    """Print tasks against the bound, worst share against the mean, seconds; and placement by bytes alone."""
    capacity = TaskCapacity(10 * 2**20, MESSAGES, 70)
    print(
        "tasks (bound), worst share over mean share, s | placed by bytes alone: tasks above usable messages\n"
    )
    for partitions, tasks, fill in (
        (1_000, 40, 0.97),
        (10_000, 200, 0.97),
        (10_000, 200, 0.99),
        (100_000, 1_000, 0.97),
    ):
        for kind in KINDS:
            rates, messages = both(kind, partitions, tasks, fill, 1)
            loads = loads_of(rates, messages)
            started = time.perf_counter()
            answer = plan(loads, capacity)
            seconds = time.perf_counter() - started
            shares = answer.loads[answer.alive] / np.array([USABLE, MESSAGES * 0.7])
            alone = plan(loads, TaskCapacity(10 * 2**20, None, 70))
            over = alone.loads[alone.alive, 1] > MESSAGES * 0.7
            print(
                f"{partitions:7} {kind:9} {fill} | {answer.tasks} ({answer.task_lower_bound}) "
                f"{shares.max() / shares.mean(axis=0).max():.4f} {seconds:6.2f} s | "
                f"{int(over.sum())} of {alone.tasks}, "
                f"up to {alone.loads[:, 1].max() / MESSAGES / 0.7:.2f} times"
            )
