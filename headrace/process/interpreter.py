"""Settings of the interpreter: thresholds of the cyclic garbage collector, and the thread switch interval."""

from __future__ import annotations

import gc
import sys
from typing import Final

_THRESHOLDS: Final = (10_000, 200, 50)
_SWITCH_SECONDS: Final = 0.001


def collect_seldom() -> None:
    """Raise the thresholds of garbage collection, for a process that holds a plan. 200,000 partitions are a
    million long-lived objects, and the default thresholds scan them all several times per tick, which takes
    half of its time. The threshold of the youngest generation stays low, because each collection blocks all
    threads: for a tenth of a second if there are 100,000 objects."""
    gc.set_threshold(*_THRESHOLDS)


def switch_often() -> None:
    """Shorten the thread switch interval, for a process that plans and serves requests. A request must
    acquire the interpreter after each of its dozen ZooKeeper responses; with the default of 5 ms it waits
    longer for a planning thread than for ZooKeeper."""
    sys.setswitchinterval(_SWITCH_SECONDS)
