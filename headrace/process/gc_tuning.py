"""When Python looks for garbage in circles."""

from __future__ import annotations

import gc
from typing import Final

_THRESHOLDS: Final = (100_000, 20, 50)


def collect_seldom() -> None:
    """For a process that holds a plan: 200,000 partitions are a million objects that live long, and the
    usual thresholds look through them all several times a tick, half of its time."""
    gc.set_threshold(*_THRESHOLDS)
