"""Rate limit by token bucket. Pure; the clock is passed in.

A bucket holds at most `burst` calls and refills at `per_second`. So at most `burst + per_second * t` calls
pass in any `t` seconds, regardless of rejected ones.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` > 0: sustained rate; `burst` >= 1: calls at once."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """Calls available at a time (seconds of a monotonic clock)."""

    left: float
    at: float


def take(rate: Rate, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """Return the bucket after a call, and 0; or, if the call is rejected, the bucket without deduction and
    the seconds until a call would pass. `bucket` None: first call."""
    if bucket is None:
        bucket = Bucket(rate.burst, now)
    passed = max(0.0, now - bucket.at)
    level = min(rate.burst, bucket.left + passed * rate.per_second)
    after = Bucket(level, max(now, bucket.at))
    if level >= 1.0:
        return Bucket(level - 1.0, after.at), 0.0
    return after, (1.0 - level) / rate.per_second
