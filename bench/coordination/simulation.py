"""Seeded faults against a service in memory: no partition has two writers, and all are copied.

Environment: `SEEDS` (10,000) and `SEED` (first seed; random by default). Failed seeds are printed; repeat one
with `run(seed, 60)` of tests/models/service.py.
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
    """Print the failures and the seeds per second. Raise SystemExit(1) if any seed failed."""
    seeds = int(os.environ.get("SEEDS", "10000"))
    first = int(os.environ.get("SEED") or random.SystemRandom().randrange(10**9))
    print(f"{seeds} seeds, starting at {first}", flush=True)
    shares = [range(one, min(one + _SHARE, first + seeds)) for one in range(first, first + seeds, _SHARE)]
    failed = 0
    began = time.perf_counter()
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        for found in pool.map(failures, shares, [_STEPS] * len(shares)):
            failed += len(found)
            for seed, reason in found:
                print(f"seed {seed}: {reason}", flush=True)
    taken = time.perf_counter() - began
    print(f"{seeds - failed} of {seeds} seeds passed, {seeds / taken:.1f} per second")
    if failed:
        sys.exit(1)
