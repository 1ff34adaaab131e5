"""Clock that only advances manually. Satisfies `mirror.ports.Clock`."""

from __future__ import annotations


class ManualClock:
    """Wall clock and monotonic clock that advance together, unless the wall clock is set."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._start_ms = now_ms
        self._seconds = 1_000.0

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return self._start_ms + round((self._seconds - 1_000.0) * 1000)

    def monotonic(self) -> float:
        """Return the current monotonic time in seconds."""
        return self._seconds

    def advance(self, seconds: float) -> None:
        """Advance the time."""
        self._seconds += seconds

    def set_back(self, seconds: float) -> None:
        """Set back the wall clock, as an operator or a time server does."""
        self._start_ms -= round(seconds * 1000)
