"""The machine's clocks."""

from __future__ import annotations

import time


class SystemClock:
    """Satisfies `ports.Clock`."""

    def now_ms(self) -> int:
        """Wall clock, epoch milliseconds."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()
