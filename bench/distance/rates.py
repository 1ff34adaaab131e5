"""Measures the rate and CPU time of a mirror while it copies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from bench.mirror.rig.engines import Engine
from bench.mirror.rig.watch import cpu_seconds, family

_TICK_SECONDS = 0.25
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Rate:
    """Copy rate over a period. `cpu_seconds`: CPU time of the mirror in the period."""

    records: int
    seconds: float
    cpu_seconds: float

    def mb_per_s(self, record_bytes: float) -> float:
        """Return the payload in MB a second."""
        return self.records * record_bytes / 1e6 / self.seconds

    def cpu_per_gb(self, record_bytes: float) -> float:
        """Return the processor seconds for a GB of payload."""
        return self.cpu_seconds / (self.records * record_bytes / 1e9)


def measure(engine: Engine, copied: Callable[[], int], records: int, settle: float, seconds: float) -> Rate:
    """Run the engine, and return its rate from `settle` seconds after the first record.

    `copied` returns the records at the destination. The measurement ends after `seconds`, or with the last
    of the `records` if that comes first.
    """
    with engine.process:
        mirror = psutil.Process(engine.process.pid)
        first = _wait_for(engine, copied, 1)
        deadline = time.monotonic() + settle
        before = first
        while time.monotonic() < deadline and before < records / 4:
            time.sleep(_TICK_SECONDS)
            before = copied()
        began, cpu = time.monotonic(), sum(map(cpu_seconds, family(mirror)))
        now = before
        while time.monotonic() < began + seconds and now < records:
            time.sleep(_TICK_SECONDS)
            now = copied()
        used = sum(map(cpu_seconds, family(mirror))) - cpu
        return Rate(now - before, time.monotonic() - began, used)


def _wait_for(engine: Engine, copied: Callable[[], int], wanted: int) -> int:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (count := copied()) < wanted:
        assert engine.process.is_alive(), engine.process.log_file.read_text(errors="replace")[-3000:]
        assert time.monotonic() < deadline, f"{engine.name} copied nothing"
        time.sleep(_TICK_SECONDS)
    return count
