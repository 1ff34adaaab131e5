"""A clock that stands still until a test moves it. Satisfies `mirror.ports.Clock`."""

from __future__ import annotations


class ManualClock:
    """Wall clock and monotonic clock move together."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._seconds = 1_000.0

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return self._start_ms + round((self._seconds - 1_000.0) * 1000)

    def monotonic(self) -> float:
        """Seconds."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._seconds += seconds
