"""Minutes of faults against a real service with datastreams of every kind, then a comparison of every record.

Environment: `MINUTES` (20), `SEED` (random by default), `STORE` (`zookeeper`, or `kafka`: three brokers),
`INSTANCES` (3), `PINOT` (1; 0 runs without it). The same seed and store give the same schedule; the
interleaving within it depends on the machine. Logs and data are kept if a promise was broken.

`RUNS`: number of runs on the same servers, with the seeds from `SEED` (1) on, by default of 20 s. Each is a
row of a table, with the watermarks of its audits. In a run below a minute the faults follow each other
closely, and it has two instances and no Pinot by default.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

from stack.folders import stack_home
from tests.chaos.service.arrivals import Arrivals
from tests.chaos.service.run import Order, Run
from tests.chaos.service.site import Site
from tests.chaos.service.verdict import Verdict
from tests.coordination_stores import store_servers
from tests.patience import PATIENCE_SECONDS

_PATIENCE_SECONDS = 120.0
_ORDER = Order(0, 0.0, mean_pause=8.0, rate=20.0, patience=_PATIENCE_SECONDS, attack=20.0)
_SHORT_ORDER = Order(0, 0.0, mean_pause=1.5, rate=15.0, patience=PATIENCE_SECONDS, attack=2.0)
_SHORT_MINUTES = "0.333"
_COLUMNS = ("seed", "faults", "written", "lost", "watermarks", "s behind", "violations", "s")


def main() -> None:
    """Print each fault, then the verdicts. Raise SystemExit(1) if a guarantee was broken."""
    runs = int(os.environ.get("RUNS") or "1")
    minutes = float(os.environ.get("MINUTES") or ("20" if runs == 1 else _SHORT_MINUTES))
    is_short = minutes < 1
    first = int(os.environ.get("SEED") or (1 if runs > 1 else random.SystemRandom().randrange(1_000_000)))
    store = os.environ.get("STORE") or "zookeeper"
    folder = stack_home().parent / "chaos" / f"seed-{first}-{int(time.time())}"
    print(
        f"{minutes:g} minutes of faults with SEED={first} STORE={store}; logs and data: {folder}", flush=True
    )
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(128 + signal.SIGTERM))
    order = _SHORT_ORDER if is_short else _ORDER
    orders = [replace(order, seed=first + number, length=minutes * 60) for number in range(runs)]
    verdicts = list[Verdict]()
    try:
        _carry_out(orders, store, folder, verdicts, is_short=is_short)
    finally:
        if runs > 1:
            print(_table(verdicts, runs), flush=True)
    broken = [verdict.seed for verdict in verdicts if verdict.violations]
    for seed in broken:
        print(f"  again: make chaos STORE={store} SEED={seed} MINUTES={minutes:g}; logs and data: {folder}")
    if broken:
        raise SystemExit(1)
    shutil.rmtree(folder, ignore_errors=True)


def _carry_out(
    orders: list[Order], store: str, folder: Path, verdicts: list[Verdict], *, is_short: bool
) -> None:
    """Carry out the runs on the same servers, and append their verdicts."""
    instances = int(os.environ.get("INSTANCES") or (2 if is_short else 3))
    with_pinot = (os.environ.get("PINOT") or str(int(not is_short))) != "0"
    folder.mkdir(parents=True)
    servers = store_servers(store, folder)
    site = Site(folder, instances, store=servers, quick_start=is_short, with_pinot=with_pinot)
    arrivals = Arrivals(site.destination.address)
    with (folder / "faults.log").open("w") as log:

        def report(line: str) -> None:
            print(line, flush=True)
            log.write(f"{line}\n")
            log.flush()

        try:
            site.start()
            arrivals.start()
            for order in orders:
                began = time.monotonic()
                verdict = Run(site, arrivals, order, report).carry_out()
                verdict.seconds = time.monotonic() - began
                report(str(verdict))
                verdicts.append(verdict)
        finally:
            site.stop()
            arrivals.stop()


def _table(verdicts: list[Verdict], runs: int) -> str:
    """Return a table row for each run."""
    lines = ["".join(f"{name:>11}" for name in _COLUMNS)]
    for verdict in verdicts:
        total, faults = verdict.total, sum(verdict.faults.values())
        row = (verdict.seed, faults, total.written, total.lost, verdict.statements)
        times = f"{verdict.audit_lag:11.1f}{len(verdict.violations):11}{verdict.seconds:11.0f}"
        lines.append("".join(f"{number:11,}" for number in row) + times)
    passed = sum(not verdict.violations for verdict in verdicts)
    return "\n".join([*lines, f"{passed} of {runs} runs without a violation"])
