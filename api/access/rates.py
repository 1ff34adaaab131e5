"""How often somebody may call: a token bucket. Pure; the clock is passed in.

A bucket holds `burst` calls at most and fills by `per_second`. So in any `t` seconds no more than
`burst + per_second * t` calls are let through, whatever is refused between them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rate:
    """`per_second` > 0 over a while, `burst` >= 1 at once."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """What was left of it at a moment (seconds of a clock that never goes back)."""

    left: float
    at: float


def take(rate: Rate, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """The bucket after a call, and 0; or after one that is refused, which takes nothing, and the seconds
    until one would be let through if nobody else asked. `bucket` None: nobody has asked before."""
    if bucket is None:
        bucket = Bucket(rate.burst, now)
    passed = max(0.0, now - bucket.at)
    level = min(rate.burst, bucket.left + passed * rate.per_second)
    after = Bucket(level, max(now, bucket.at))
    if level >= 1.0:
        return Bucket(level - 1.0, after.at), 0.0
    return after, (1.0 - level) / rate.per_second
