"""The fewest moved bytes, proved: 300 x 20 and 1,000 x 40 over kinds, drifts and seeds."""

from __future__ import annotations

import time

import numpy as np

from assigner.planner import plan
from bench.placement_incremental import REBALANCE, REPAIR, world
from bench.placement_loads import CAPACITY, KINDS, loads_of


def main() -> None:
    """Proved means that what moves is less than one byte a second above the lower bound."""
    for partitions, tasks in ((300, 20), (1_000, 40)):
        for name, policy in (("repair", REPAIR), ("rebalance", REBALANCE)):
            seconds, ratios, proved = [], [], 0
            for kind in KINDS:
                for seed in (1, 2, 3):
                    for sigma in (0.1, 0.3):
                        rates, current = world(kind, partitions, tasks, sigma, seed)
                        started = time.perf_counter()
                        answer = plan(loads_of(rates), CAPACITY, None, policy, current)
                        seconds.append(time.perf_counter() - started)
                        if answer.gap.moved_bytes_per_second < 1:
                            proved += 1
                        else:
                            ratios.append(answer.moved_bytes_per_second / max(answer.moved_lower_bound, 1))
            rest = f"the rest at {min(ratios):.4f} to {max(ratios):.2f} of the bound" if ratios else "no rest"
            print(
                f"{partitions:5} x {tasks} {name:9}: {proved} of {len(seconds)} proved, {rest}; "
                f"median {np.median(seconds):.3f} s, worst {max(seconds):.2f} s"
            )
