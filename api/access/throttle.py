"""Rate limit per caller, by token bucket.

A bucket holds at most `burst` calls and refills at `per_second`. So at most `burst + per_second * t` calls
pass in any `t` seconds; rejected calls do not count. `take` is pure; the clock is passed in.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mirror.errors import TooOften


@dataclass(frozen=True, slots=True)
class Rate:
    """Rate limit. `per_second` > 0: sustained rate. `burst` >= 1: number of calls that may arrive at once."""

    per_second: float
    burst: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """Number of calls available at a point in time (monotonic seconds)."""

    left: float
    at: float


def take(rate: Rate, bucket: Bucket | None, now: float) -> tuple[Bucket, float]:
    """Return the bucket after a call, and 0; or, if the call is rejected, the bucket without deduction and
    the seconds until a call would pass. `bucket` None means that this is the first call."""
    if bucket is None:
        bucket = Bucket(rate.burst, now)
    passed = max(0.0, now - bucket.at)
    level = min(rate.burst, bucket.left + passed * rate.per_second)
    after = Bucket(level, max(now, bucket.at))
    if level >= 1.0:
        return Bucket(level - 1.0, after.at), 0.0
    return after, (1.0 - level) / rate.per_second


_MOST: Final = 10_000
"""Maximum number of callers whose buckets are kept. A caller whose bucket was dropped starts with a full
bucket."""


class Throttle:
    """A token bucket per caller. Thread-safe."""

    def __init__(self, rate: Rate, monotonic: Callable[[], float], most: int = _MOST) -> None:
        self._rate = rate
        self._monotonic = monotonic
        self._most = most
        self._lock = threading.Lock()
        self._buckets = OrderedDict[str, Bucket]()

    def admit(self, caller: str) -> None:
        """Count a call. Raises TooOften."""
        with self._lock:
            now = self._monotonic()
            self._buckets[caller], seconds = take(self._rate, self._buckets.get(caller), now)
            self._buckets.move_to_end(caller)
            if len(self._buckets) > self._most:
                self._buckets.popitem(last=False)
        if seconds:
            raise TooOften(
                f"{caller} exceeds the rate limit of {self._rate.per_second:g}/s",
                after_seconds=max(1, math.ceil(seconds)),
                advice="retry after the delay in Retry-After; an operator can change [api.limits]",
            )
