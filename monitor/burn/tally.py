"""Sums of measurements for one objective over a time range, and the share that was bad. Pure.

The bad share is the larger of two shares: the share of records that arrived late, if there were enough
records, and the share of time in which the oldest waiting record was too old. The second share also covers
datastreams that copy nothing. The shares are not added, because waiting records are counted again when they
arrive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from mirror.model.latency import LATENCY_BOUNDS_MS, latency_bucket


class LatencyTally(NamedTuple):
    """Measurements for one objective over a time range; tallies can be added. `late`: number of late records,
    interpolated from a histogram and therefore not an integer."""

    records: int = 0
    late: float = 0.0
    stale_seconds: float = 0.0


def late_records(counts: Sequence[int], milliseconds: int) -> float:
    """Return the number of records in a histogram with a latency above `milliseconds`.

    Interpolates within a bucket like `mirror.model.latency.percentile_ms`. Records beyond the last bound
    count as late."""
    index = latency_bucket(milliseconds)
    return sum(counts[index + 1 :]) + counts[index] * late_share(milliseconds)


@lru_cache(maxsize=10_000)
def late_share(milliseconds: int) -> float:
    """Return the share of the records in the latency's histogram bucket that are later than
    `milliseconds`."""
    index = latency_bucket(milliseconds)
    if index == len(LATENCY_BOUNDS_MS):
        return 1.0
    within = milliseconds if index == 0 else math.log2(milliseconds) - (index - 1)
    return 1 - min(within, 1.0)


def bad_share(tally: LatencyTally, seconds: float, minimum_records: int) -> float:
    """Return the share of a time range that was bad, 0 to 1, as defined in the module docstring."""
    of_records = tally.late / tally.records if tally.records >= max(minimum_records, 1) else 0.0
    return max(of_records, min(tally.stale_seconds / seconds, 1.0))
