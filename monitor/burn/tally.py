"""What was measured of one objective over some time, and how much of it was bad. Pure.

Two shares are bad: of the records, those that arrived too late, as far as there were enough of them to speak
of a share; of the time, the seconds in which the oldest waiting record was too old already, so that silence
counts. The larger of the two is the bad share. They are not added up: records that wait become late ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirror.model.metrics import LATENCY_BOUNDS_MS, latency_bucket


class Tally(NamedTuple):
    """Adds up over time. `late`: of the records; a histogram has them by interpolation, so it is no whole
    number."""

    records: int = 0
    late: float = 0.0
    stale_seconds: float = 0.0


NOTHING = Tally()


def late_records(counts: Sequence[int], milliseconds: int) -> float:
    """How many of a histogram's records took longer. Inside a bucket it interpolates as
    `mirror.model.metrics.percentile_ms` does; what lies beyond the last bound is late."""
    index = latency_bucket(milliseconds)
    return sum(counts[index + 1 :]) + counts[index] * late_share(milliseconds)


@lru_cache(maxsize=10_000)
def late_share(milliseconds: int) -> float:
    """The part of the records in the bucket of a latency that took longer than it."""
    index = latency_bucket(milliseconds)
    if index == len(LATENCY_BOUNDS_MS):
        return 1.0
    within = milliseconds if index == 0 else math.log2(milliseconds) - (index - 1)
    return 1 - min(within, 1.0)


def bad_share(tally: Tally, seconds: float, minimum_records: int) -> float:
    """From 0 to 1, of a window. See the module."""
    of_records = tally.late / tally.records if tally.records >= max(minimum_records, 1) else 0.0
    return max(of_records, min(tally.stale_seconds / seconds, 1.0))
