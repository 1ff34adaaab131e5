"""Detects connections whose rate the TCP receive window of a broker limits. Pure.

A connection carries at most one window per round trip. The window of a broker with fixed socket buffers
(Kafka's default: 100 KB) never grows. With automatic buffers, the kernel enlarges the window within a few
round trips.
"""

from __future__ import annotations

from typing import Final

from mirror.client.transport import TcpInfo

_MEASURE_SECONDS: Final = 0.5
_MEASURE_ROUND_TRIPS: Final = 8
"""Round trips within which a kernel with automatic buffers has enlarged the window."""
_BUSY: Final = 0.5
"""Minimum share of the time with data to send, for a valid measurement."""
_FULL: Final = 0.6
"""Share of the window per round trip from which on the window is the limit.

The kernel's own counter, `tcpi_rwnd_limited`, is too low: it omits the time for which the kernel delays
segments to combine them. A window that the kernel adapts is at least about twice the bytes in flight.
"""


class SendWindow:
    """Measures whether the receive window limits the rate of one connection."""

    __slots__ = ("_before", "_since", "_window_bytes", "is_limit")

    def __init__(self) -> None:
        self.is_limit = False
        """True if the window limited the connection during the last measurement."""
        self._since: float | None = None
        self._before = TcpInfo()
        self._window_bytes = 0
        """Largest window since `_since`.

        A broker that is briefly slow advertises a smaller window.
        """

    def note(self, info: TcpInfo, now: float, round_trip: float) -> bool:
        """Update the measurement with kernel counters. Return True if it has ended, and the window was the
        limit. `now`, `round_trip`: current time and round-trip time in seconds."""
        window = self._window_bytes = max(self._window_bytes, info.window_bytes)
        if self._since is None:
            self._since, self._before = now, info
            return False
        seconds = now - self._since
        if seconds < max(_MEASURE_SECONDS, _MEASURE_ROUND_TRIPS * round_trip):
            return False
        busy = (info.busy_time - self._before.busy_time) / 1e6
        acked = info.acked_bytes - self._before.acked_bytes
        self._since, self._before, self._window_bytes = now, info, info.window_bytes
        is_judged = bool(window) and busy >= _BUSY * seconds
        self.is_limit = is_judged and acked * round_trip >= _FULL * window * busy
        return self.is_limit
