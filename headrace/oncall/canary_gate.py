"""Runs a canary as a check before a release."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from monitor.adapters.canary_probe import CanaryProbe
from monitor.canary.gate import GateLimits, GateResult, judge_gate
from monitor.canary.ledger import CanaryFigures

_LEAST_WARM_UP_SECONDS: Final = 10.0
_MOST_WARM_UP_SECONDS: Final = 90.0
"""Maximum seconds to wait for the first record, if the run is at least as long.

The leader must first create the copy of a new topic.
"""
_LOOK_SECONDS: Final = 0.2


def run_gate(
    probe: CanaryProbe, limits: GateLimits, seconds: float, show: Callable[[CanaryFigures], None]
) -> GateResult:
    """Run a canary probe for `seconds` after its first record has arrived, and return whether it passed.

    If no record arrives in the warm-up time, the check fails. At the end of the run, records have up to
    `max_delay_ms` to arrive. `show`: called with intermediate results several times per second.
    """

    never = threading.Event()

    def wait(seconds: float, condition: Callable[[CanaryFigures], bool]) -> bool:
        until = time.monotonic() + seconds
        while not (is_met := condition(figures := probe.figures())) and time.monotonic() < until:
            show(figures)
            never.wait(_LOOK_SECONDS)
        return is_met

    probe.start()
    try:
        warm_up = min(max(seconds, _LEAST_WARM_UP_SECONDS), _MOST_WARM_UP_SECONDS)
        if wait(warm_up, lambda figures: figures.consumed > 0):
            wait(seconds, lambda _: False)
        probe.end_writing()
        wait(limits.max_delay_ms / 1_000, lambda figures: not figures.waiting)
        return judge_gate(probe.figures(), limits)
    finally:
        probe.stop()
