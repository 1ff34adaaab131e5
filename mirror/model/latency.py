"""Ages of records, and latency histograms: counts per bucket, which can be added."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Final

LATENCY_BOUNDS_MS: Final = tuple(float(2**power) for power in range(19))
"""Upper bounds of the latency buckets in ms: 1, 2, 4 … 262144. One more bucket counts higher values."""
LATENCY_BUCKETS: Final = len(LATENCY_BOUNDS_MS) + 1
_NO_COUNTS: Final = (0,) * LATENCY_BUCKETS
_CLOCK_SKEW_MS: Final = 1_000


def age_ms(now_ms: int, timestamp: int) -> int | None:
    """Return the age of a record in ms. Returns None without a timestamp, or if the timestamp is further in
    the future than clocks may differ."""
    age = now_ms - timestamp
    return max(age, 0) if timestamp >= 0 and age > -_CLOCK_SKEW_MS else None


def latency_bucket(milliseconds: float) -> int:
    """Return the bucket index of a latency. Latencies up to the first bound are in bucket 0."""
    return 0 if milliseconds <= 1 else min((math.ceil(milliseconds) - 1).bit_length(), LATENCY_BUCKETS - 1)


def add_counts(rows: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of several latency histograms, bucket by bucket."""
    return tuple(map(sum, zip_longest(_NO_COUNTS, *rows, fillvalue=0)))


def percentile_ms(counts: Sequence[int], percentile: float) -> float | None:
    """Return a latency percentile in ms from bucket counts, or None without records. Interpolates
    geometrically within a bucket, so the error is at most a factor of 2. Latencies above the last bound are
    returned as the last bound."""
    total = sum(counts)
    if total == 0:
        return None
    wanted = total * percentile / 100
    seen = 0
    for count, upper in zip(counts, LATENCY_BOUNDS_MS, strict=False):
        if count and seen + count >= wanted:
            share = (wanted - seen) / count
            return share if upper == LATENCY_BOUNDS_MS[0] else upper / 2 * 2**share
        seen += count
    return LATENCY_BOUNDS_MS[-1]
