"""Detects connections whose rate the TCP receive window of a broker limits. Pure.

A connection carries at most one window per round trip. The window of a broker with fixed socket buffers
(Kafka's default: 100 KB) never grows. With automatic buffers, the kernel enlarges the window within a few
round trips.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mirror.client.transport import ACKED_AT

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
_BUSY_AT: Final = 168
"""Byte offset of `tcpi_busy_time` (microseconds) in Linux's `struct tcp_info`."""
_WINDOW_AT: Final = 228
"""Byte offset of `tcpi_snd_wnd` (bytes; since Linux 5.4)."""
_LONG: Final = struct.Struct("=Q")
_INT: Final = struct.Struct("=I")
INFO_BYTES: Final = _WINDOW_AT + _INT.size
"""Number of bytes of `struct tcp_info` that are read."""


class SendLimits(NamedTuple):
    """Kernel counters of a connection; 0 if unknown. Fields: seconds with data to send and bytes acknowledged
    by the receiver, both since the connection was opened; receive window in bytes."""

    busy: float = 0.0
    acked_bytes: int = 0
    window_bytes: int = 0

    @classmethod
    def of(cls, tcp_info: bytes) -> SendLimits:
        """Parse the first `INFO_BYTES` of `struct tcp_info`. Return zeros for empty input."""
        if not tcp_info:
            return cls()
        (busy,) = _LONG.unpack_from(tcp_info, _BUSY_AT)
        (acked,) = _LONG.unpack_from(tcp_info, ACKED_AT)
        return cls(busy / 1e6, acked, _INT.unpack_from(tcp_info, _WINDOW_AT)[0])


class SendWindow:
    """Measures whether the receive window limits the rate of one connection."""

    __slots__ = ("_before", "_since", "_window_bytes", "is_limit")

    def __init__(self) -> None:
        self.is_limit = False
        """True if the window limited the connection during the last measurement."""
        self._since: float | None = None
        self._before = SendLimits()
        self._window_bytes = 0
        """Largest window since `_since`.

        A broker that is briefly slow advertises a smaller window.
        """

    def note(self, limits: SendLimits, now: float, round_trip: float) -> bool:
        """Record the kernel counters. Return True if a measurement ends now and the window is the limit.
        `now`, `round_trip`: current time and round-trip time in seconds."""
        window = self._window_bytes = max(self._window_bytes, limits.window_bytes)
        if self._since is None:
            self._since, self._before = now, limits
            return False
        seconds = now - self._since
        if seconds < max(_MEASURE_SECONDS, _MEASURE_ROUND_TRIPS * round_trip):
            return False
        busy = limits.busy - self._before.busy
        acked = limits.acked_bytes - self._before.acked_bytes
        self._since, self._before, self._window_bytes = now, limits, limits.window_bytes
        is_judged = bool(window) and busy >= _BUSY * seconds
        self.is_limit = is_judged and acked * round_trip >= _FULL * window * busy
        return self.is_limit
