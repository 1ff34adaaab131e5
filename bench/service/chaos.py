"""Minutes of faults against a real service with datastreams of every kind, then a check of every record.

Environment: `MINUTES` (20), `SEED` (random by default), `STORE` (`zookeeper`, or `kafka`: three brokers),
`INSTANCES` (3), `PINOT` (1; 0 runs without it). The same seed and store give the same schedule; the
interleaving within it depends on the machine. Logs and data are kept if a promise was broken.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path

from stack.folders import stack_home
from tests.chaos.service.arrivals import Arrivals
from tests.chaos.service.run import Order, Run
from tests.chaos.service.site import Site
from tests.chaos.service.verdict import Verdict
from tests.coordination_stores import store_servers

_PATIENCE_SECONDS = 120.0
_MEAN_PAUSE_SECONDS = 8.0
_RATE = 20.0
_ATTACK_SECONDS = 20.0


def main() -> None:
    """Print each fault, then the verdict. Raise SystemExit(1) if a promise was broken."""
    minutes = float(os.environ.get("MINUTES", "20"))
    seed = int(os.environ.get("SEED") or random.SystemRandom().randrange(1_000_000))
    store = os.environ.get("STORE", "zookeeper")
    folder = stack_home().parent / "chaos" / f"seed-{seed}-{int(time.time())}"
    print(
        f"{minutes:g} minutes of faults with SEED={seed} STORE={store}; logs and data: {folder}", flush=True
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128 + signal.SIGTERM))
    order = Order(seed, minutes * 60, _MEAN_PAUSE_SECONDS, _RATE, _PATIENCE_SECONDS, _ATTACK_SECONDS)
    verdict = _carry_out(order, store, folder)
    print(verdict, flush=True)
    if verdict.violations:
        print(f"  again: make chaos STORE={store} SEED={seed} MINUTES={minutes:g}; logs and data: {folder}")
        raise SystemExit(1)
    shutil.rmtree(folder, ignore_errors=True)


def _carry_out(order: Order, store: str, folder: Path) -> Verdict:
    instances, with_pinot = int(os.environ.get("INSTANCES", "3")), os.environ.get("PINOT", "1") != "0"
    folder.mkdir(parents=True)
    site = Site(folder, instances, store=store_servers(store, folder), with_pinot=with_pinot)
    arrivals = Arrivals(site.destination.address)
    with (folder / "faults.log").open("w") as log:

        def report(line: str) -> None:
            print(line, flush=True)
            log.write(f"{line}\n")
            log.flush()

        try:
            site.start()
            arrivals.start()
            return Run(site, arrivals, order, report).carry_out()
        finally:
            site.stop()
            arrivals.stop()
