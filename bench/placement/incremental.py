"""Incremental plans after loads have drifted: bytes moved compared with the bound and a full plan."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator

import numpy as np

from assigner.planner import plan
from assigner.problem.policy import PlanMode, Policy
from assigner.problem.problem import TaskOf
from bench.placement.full import fresh, resident_mib
from bench.placement.loads import CAPACITY, KINDS, USABLE, Floats, draw, drift, loads_of

SIZES = ((1_000, 40), (10_000, 200), (200_000, 2_000))
REPAIR = Policy(mode=PlanMode.INCREMENTAL)
REBALANCE = Policy(mode=PlanMode.INCREMENTAL, rebalance=True)


def drifted(kind: str, partitions: int, tasks: int, sigma: float, seed: int = 1) -> tuple[Floats, TaskOf]:
    """Return loads after drift (90 % full) and the tasks before it; 2 % of the partitions are new."""
    rates = draw(kind, partitions, tasks, seed)
    before = plan(loads_of(rates), CAPACITY).task_of
    later = drift(rates, sigma, seed + 100)
    current = before.copy()
    current[np.random.default_rng(seed).random(partitions) < 0.02] = -1
    return later, current


def measure(kind: str, partitions: int, tasks: int, sigma: float) -> dict[str, float]:
    """Return seconds, percent of bytes moved and its bound for each policy, planned in this process."""
    memory = resident_mib()
    rates, current = drifted(kind, partitions, tasks, sigma)
    loads, total = loads_of(rates), rates.sum()
    found: dict[str, float] = {}
    for name, policy in (("repair", REPAIR), ("rebalance", REBALANCE), ("full", Policy())):
        best = np.inf
        for _ in range(2):
            started = time.perf_counter()
            answer = plan(loads, CAPACITY, None, policy, current)
            best = min(best, time.perf_counter() - started)
        bound = answer.moved_lower_bound
        found |= {
            f"{name} s": best,
            f"{name} %": 100 * answer.moved_bytes_per_second / total,
            f"{name} bound %": 100 * bound / total,
            f"{name} over": len(answer.overloaded),
            f"{name} max": answer.max_load / USABLE,
        }
    found["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - memory
    return found


def _rows() -> Iterator[tuple[str, int, int, float]]:
    for partitions, tasks in SIZES:
        for kind in KINDS:
            for sigma in (0.1, 0.3):
                yield kind, partitions, tasks, sigma


def main() -> None:
    """Print repairs to usable capacity, rebalances to 1 % above the best level, and full plans."""
    print("moved: percent of all bytes (lower bound), seconds, max/usable after\n")
    for kind, partitions, tasks, sigma in _rows():
        found = fresh("bench.placement.incremental", f"measure('{kind}', {partitions}, {tasks}, {sigma})")
        cells = [
            f"{name} {float(found[f'{name} %']):7.4f} ({float(found[f'{name} bound %']):7.4f}) "
            f"{float(found[f'{name} s']):6.3f} s {float(found[f'{name} max']):.4f}"
            for name in ("repair", "rebalance")
        ]
        print(
            f"{partitions:7} {kind:9} {sigma} | {' | '.join(cells)} | full {float(found['full %']):5.1f} % "
            f"{float(found['full s']):6.3f} s | {float(found['mib']):4.0f} MiB"
        )
