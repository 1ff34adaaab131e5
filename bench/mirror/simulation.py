"""Seeded faults over an engine between fake brokers, in virtual time, and every record compared.

In the environment: `SEEDS` (1,000), `SEED` (the first one; by chance unless given), `PROCESSES` (one for each
processor). A seed that fails is printed with its schedule; `SIMULATION_SEED=n` with
tests/simulation/test_data_plane.py repeats it.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from tests.simulation.run import Simulation
from tests.simulation.schedule import plan

_IN_EACH: Final = 25


def main() -> None:
    """Print what fails, and how many seeds a second that makes. Raises SystemExit with 1 if any does."""
    seeds = int(os.environ.get("SEEDS", "1000"))
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    processes = int(os.environ.get("PROCESSES") or os.cpu_count() or 1)
    print(f"{seeds} seeds from {first} on, in {processes} processes", flush=True)
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
    print(
        f"{seeds - len(failed)} of {seeds} seeds hold; {taken:.0f} s, {cpu / seeds * 1000:.0f} ms of CPU each"
    )
    if failed:
        print(f"these do not: {', '.join(map(str, failed))}")
        sys.exit(1)


def _run(part: range) -> tuple[dict[int, str], float]:
    """What fails, by seed, and the seconds of CPU."""
    logging.disable(logging.CRITICAL)
    gc.disable()  # a seed leaves little behind, and half of its objects are looked at again and again
    began = time.process_time()
    failures: dict[int, str] = {}
    for seed in part:
        try:
            Simulation(plan(seed)).carry_out()
        except AssertionError as error:
            failures[seed] = str(error)
    gc.collect()
    return failures, time.process_time() - began
