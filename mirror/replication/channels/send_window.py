"""Whether the receive window of a broker limits a connection. Pure.

A connection carries at most a window for each round trip. A broker with fixed socket buffers (Kafka's default
is 100 KB) never opens its window further; otherwise the kernel does so within some round trips.
"""

from __future__ import annotations

from typing import Final

from mirror.client.transport import SendLimits

_MEASURE_SECONDS: Final = 0.5
_MEASURE_ROUND_TRIPS: Final = 8
"""Time in which a kernel that sizes the window itself has opened it."""
_SHARE: Final = 0.5
"""Share of the time with data to send during which a full window limits the connection."""


class SendWindow:
    """Measurements of one connection."""

    __slots__ = ("_before", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._before = SendLimits(0.0, 0.0, 0)

    def note(self, limits: SendLimits, now: float, round_trip: float) -> bool:
        """Note the kernel's figures, and return whether the window limited the connection most recently.

        `now` and `round_trip` in seconds.
        """
        if self._since is None:
            self._since, self._before = now, limits
            return False
        seconds = now - self._since
        if seconds < max(_MEASURE_SECONDS, _MEASURE_ROUND_TRIPS * round_trip):
            return False
        busy = limits.busy - self._before.busy
        limited = limits.window_limited - self._before.window_limited
        self._since, self._before = now, limits
        return busy >= _SHARE * seconds and limited >= _SHARE * busy
