"""Tunes the garbage collection and the thread switch interval of the Python interpreter."""

from __future__ import annotations

import gc
import sys
from typing import Final

_THRESHOLDS: Final = (10_000, 200, 50)
_SWITCH_SECONDS: Final = 0.001


def collect_seldom() -> None:
    """Make garbage collection rare, and exclude all existing objects from it.

    For a process that has imported everything and keeps a plan in memory: 200,000 partitions are a million
    long-lived objects. With the default thresholds, the collector would scan them several times per tick,
    which takes half of the time of a tick. The threshold of the youngest generation stays low, because each
    collection blocks all threads: a collection of 100,000 objects takes a tenth of a second.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(*_THRESHOLDS)


def switch_often() -> None:
    """Let the interpreter switch between threads more often.

    The function is for a process that plans and serves requests. A request must acquire the interpreter lock
    after each of about a dozen ZooKeeper responses. With the default interval of 5 ms, it would wait longer
    for a planning thread than for ZooKeeper.
    """
    sys.setswitchinterval(_SWITCH_SECONDS)
