"""Rate limit per caller."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from api.access.rates import Bucket, Rate, take
from mirror.errors import TooOften

_MOST: Final = 10_000
"""Callers remembered. A forgotten one starts with a full bucket."""


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
