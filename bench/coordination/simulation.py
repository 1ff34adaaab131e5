"""Seeded faults against a whole service in memory: no partition has two writers, in the end all are copied.

In the environment: `SEEDS` (10,000), `SEED` (the first one; by chance unless given). Seeds that fail are
printed; `run(seed, 60)` of tests/models/service.py repeats one.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.models.service import failures

_STEPS = 60
_SHARE = 100


def main() -> None:
    """Print what fails, and how many seeds a second that makes. Raises SystemExit with 1 if any does."""
    seeds = int(os.environ.get("SEEDS", "10000"))
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    print(f"{seeds} seeds from {first} on", flush=True)
    shares = [range(one, min(one + _SHARE, first + seeds)) for one in range(first, first + seeds, _SHARE)]
    failed = 0
    began = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(failures, shares, [_STEPS] * len(shares)):
            failed += len(found)
            for seed, reason in found:
                print(f"seed {seed}: {reason}", flush=True)
    taken = time.perf_counter() - began
    print(f"{seeds - failed} of {seeds} seeds hold, {seeds / taken:.1f} a second")
    if failed:
        sys.exit(1)
