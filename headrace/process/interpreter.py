"""When Python looks for garbage in circles, and how long a thread keeps the interpreter."""

from __future__ import annotations

import gc
import sys
from typing import Final

_THRESHOLDS: Final = (10_000, 200, 50)
_SWITCH_SECONDS: Final = 0.001


def collect_seldom() -> None:
    """For a process that holds a plan: 200,000 partitions are a million objects that live long, and the
    usual thresholds look through them all several times a tick, half of its time. What is new is looked
    through in small parts: every thread waits meanwhile, for a tenth of a second at 100,000 objects."""
    gc.set_threshold(*_THRESHOLDS)


def switch_often() -> None:
    """For a process that plans and answers: a call takes the interpreter back after each of its dozen answers
    of ZooKeeper, and at 5 ms, as usual, it waits longer for a planning thread than for ZooKeeper."""
    sys.setswitchinterval(_SWITCH_SECONDS)
