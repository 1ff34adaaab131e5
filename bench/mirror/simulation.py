"""Seeded faults over an engine between fake brokers, in virtual time, and every record compared.

In the environment: `SEEDS` (1,000), `SEED` (the first one; by chance unless given). A seed that fails is
printed with its schedule; `SIMULATION_SEED=n` with tests/simulation/test_data_plane.py repeats it.
"""

from __future__ import annotations

import logging
import os
import random
import sys
import time

from tests.simulation.run import Simulation
from tests.simulation.schedule import plan


def main() -> None:
    """Print what fails, and how many seeds a second that makes. Raises SystemExit with 1 if any does."""
    logging.disable(logging.CRITICAL)
    seeds = int(os.environ.get("SEEDS", "1000"))
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    print(f"{seeds} seeds from {first} on", flush=True)
    failed: list[int] = []
    began = time.perf_counter()
    for seed in range(first, first + seeds):
        try:
            Simulation(plan(seed)).carry_out()
        except AssertionError as error:
            failed.append(seed)
            print(f"\n{error}\n", flush=True)
    taken = time.perf_counter() - began
    print(f"{seeds - len(failed)} of {seeds} seeds hold, {seeds / taken:.1f} a second")
    if failed:
        print(f"these do not: {', '.join(map(str, failed))}")
        sys.exit(1)
