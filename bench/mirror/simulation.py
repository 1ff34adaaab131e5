"""Seeded faults against an engine between fake brokers, in virtual time, with every record compared.

Environment: `SEEDS` (1,000), `SEED` (first seed; random by default), `PROCESSES` (one per processor). A
failed seed is printed with its schedule; repeat it with `SIMULATION_SEED=n` and
tests/simulation/test_data_plane.py.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from mirror.loggers import set_threshold
from tests.simulation.run import Simulation
from tests.simulation.schedule import plan

_IN_EACH: Final = 25


def main() -> None:
    """Print the failures and the time per seed. Raise SystemExit(1) if any seed failed."""
    seeds = int(os.environ.get("SEEDS", "1000"))
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    processes = int(os.environ.get("PROCESSES") or os.cpu_count() or 1)
    print(f"{seeds} seeds, starting at {first}, in {processes} processes", flush=True)
    failed: list[int] = []
    cpu, began = 0.0, time.perf_counter()
    parts = [range(one, min(one + _IN_EACH, first + seeds)) for one in range(first, first + seeds, _IN_EACH)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        for failures, seconds in pool.map(_run, parts):
            cpu += seconds
            for seed, error in failures.items():
                failed.append(seed)
                print(f"\n{error}\n", flush=True)
    taken = time.perf_counter() - began
    print(f"{seeds - len(failed)} of {seeds} passed; {taken:.0f} s, {cpu / seeds * 1000:.0f} ms of CPU each")
    if failed:
        print(f"failed seeds: {', '.join(map(str, failed))}")
        sys.exit(1)


def _run(part: range) -> tuple[dict[int, str], float]:
    """Return the failure of each seed that failed, and the CPU seconds."""
    set_threshold("off")
    gc.disable()  # a seed leaves little garbage, but collections would traverse half of its objects
    began = time.process_time()
    failures: dict[int, str] = {}
    for seed in part:
        try:
            Simulation(plan(seed)).carry_out()
        except AssertionError as error:
            failures[seed] = str(error)
    gc.collect()
    return failures, time.process_time() - began
