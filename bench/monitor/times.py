"""Times from breach to rebalance, from burning error budget to alert, and from alarm to data loss.

Runs an instance with its own monitor, two brokers, ZooKeeper, Pinot and an alert receiver on one machine. Hot
partition: two partitions that each carry 70 % of a task's quota are in one task; placement uses the loads
that the mirror measures itself (`load_provider = "self"`). A breach starts when p99 of the records of the
last five seconds, measured by a consumer of the copy, exceeds the objective, and ends when it no longer does.
Burning budget: one partition gets twice the quota of its task, which no placement can fix. Loss: the source
retains records for two minutes and one partition gets four times the quota of its task; a record is lost when
the log starts after the stored checkpoint. `BENCH_CASES`: default, fastest, burn, loss.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from bench.mirror.rig.clusters import chosen
from bench.monitor.rig.judged import LIMIT, OBJECTIVE_MS, Judged, judged
from bench.tables import print_table

_HEAVY: Final = LIMIT * 0.7
_CALM_SECONDS: Final = 45.0
_BURN_SECONDS: Final = 60.0
_FASTEST: Final[Mapping[str, str]] = {
    "HEADRACE_MONITOR__INTERVAL_SECONDS": "1",
    "HEADRACE_MONITOR__WINDOW_SECONDS": "6",
    "HEADRACE_MONITOR__OPEN_AFTER": "1",
    "HEADRACE_MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
}
_ONE_RULE: Final = {"HEADRACE_MONITOR__BURN_RATES": '["14.4 over 1 h and 5 m"]'}
_BURNING: Final = "HeadraceErrorBudgetBurning"
_LOSING: Final = "HeadraceDataLossAhead"
_KEPT: Final = {"retention_ms": "120000", "segment_ms": "1000"}
_BUDGET: Final = {"milliseconds": OBJECTIVE_MS, "target_percent": 99.5}


def main() -> None:
    """Print the seconds of each step."""
    for name, settings in (("default", {}), ("fastest", _FASTEST)):
        if chosen(name):
            with judged(settings, []) as site:
                _hot_partition(name, site)
    if chosen("burn"):
        with judged(_ONE_RULE, [_BUDGET]) as site:
            _burning(site)
    if chosen("loss"):
        with judged({}, [], **_KEPT) as site:
            _losing(site)


def _print_seconds(what: str, steps: Mapping[str, float]) -> None:
    print_table((what, "seconds"), [(step, f"{seconds:.1f}") for step, seconds in steps.items()])


def _hot_partition(name: str, site: Judged) -> None:
    first, second, *_ = sorted(site.tasks()[0])
    site.write({})
    time.sleep(_CALM_SECONDS)
    shifted = site.write({first: _HEAVY, second: _HEAVY})
    breach = site.until(site.is_late, "a breach")
    detected = site.until(lambda: site.has_logged("latency objective breached"), "the breach is detected")
    requested = site.until(lambda: site.has_logged("rebalance requested"), "a rebalance is requested")
    in_force = site.until(lambda: site.is_in_force(first, second), "the rebalance is in force")
    met = site.until(lambda: not site.is_late(), "the objective is met again")
    steps = {
        "traffic shifts to breach": breach - shifted,
        "breach to detected": detected - breach,
        "breach to rebalance requested": requested - breach,
        "breach to rebalance in effect": in_force - breach,
        "detected to p99 within the objective": met - detected,
    }
    _print_seconds(f"hot partition, {name} settings", steps)


def _burning(site: Judged) -> None:
    site.write({0: _HEAVY})
    time.sleep(_CALM_SECONDS)
    began = site.write({0: LIMIT * 2.0})
    breach = site.until(site.is_late, "a breach")
    called = site.until(lambda: site.is_called(_BURNING), "the alert fires")
    time.sleep(max(0.0, began + _BURN_SECONDS - time.monotonic()))
    site.write({0: _HEAVY})
    ended = site.until(lambda: not site.is_late(), "the breach ends")
    over = site.until(lambda: site.is_called(_BURNING, resolved=True), "the alert is resolved")
    steps = {
        "breach to alert": called - breach,
        "the breach lasts for": ended - breach,
        "end of the breach to resolved": over - ended,
    }
    _print_seconds("error budget of 0.5 %, 14.4 over 1 h and 5 m, default settings", steps)


def _losing(site: Judged) -> None:
    site.write({})
    time.sleep(_CALM_SECONDS)
    began = site.write({0: LIMIT * 4.0})
    called = site.until(lambda: site.is_called(_LOSING), "the alert fires")
    lost = site.until(lambda: site.has_lost(0), "a record is lost")
    steps = {"traffic starts to alert": called - began, "alert to the first loss": lost - called}
    _print_seconds("retention 2 min, four times the quota of a task, default settings", steps)
