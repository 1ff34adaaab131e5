"""The system clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Implementation of `ports.Clock`."""

    def now_ms(self) -> int:
        """Return the wall clock in epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Return seconds since an arbitrary fixed point."""
        return time.monotonic()
