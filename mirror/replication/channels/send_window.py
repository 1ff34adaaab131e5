"""Detects connections whose rate is limited by a broker's TCP receive window. Pure.

A connection carries at most one window per round trip. The window of a broker with fixed socket buffers
(Kafka's default is 100 KB) never grows; otherwise the kernel increases the window within some round trips.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from mirror.client.transport import ACKED_AT

_MEASURE_SECONDS: Final = 0.5
_MEASURE_ROUND_TRIPS: Final = 8
"""Time within which a kernel that adapts the window has increased it."""
_BUSY: Final = 0.5
"""Share of the time in which a connection must have had data to send, for a valid measurement."""
_FULL: Final = 0.6
"""Share of the window per round trip from which on the window is the limit.

The kernel's own number, `tcpi_rwnd_limited`, is too low: it does not include the time for which the kernel
delays segments to send several at once. If the kernel adapts the window, it is at least about twice the bytes
in flight per round trip.
"""
_BUSY_AT: Final = 168
"""Byte offset of `tcpi_busy_time` (microseconds) in Linux's `struct tcp_info`."""
_WINDOW_AT: Final = 228
"""Byte offset of `tcpi_snd_wnd` (bytes; since Linux 5.4)."""
_LONG: Final = struct.Struct("=Q")
_INT: Final = struct.Struct("=I")
INFO_BYTES: Final = _WINDOW_AT + _INT.size
"""Size of the part of `struct tcp_info` that is read."""


class SendLimits(NamedTuple):
    """Counters of a connection from the kernel; all 0 if unknown.

    Fields: the seconds with data to send and the bytes acknowledged by the receiver, both since the start of
    the connection, and the receiver's window in bytes.
    """

    busy: float = 0.0
    acked_bytes: int = 0
    window_bytes: int = 0

    @classmethod
    def of(cls, tcp_info: bytes) -> SendLimits:
        """Return the counters in the first `INFO_BYTES` of `struct tcp_info`; zeros if it is empty."""
        if not tcp_info:
            return cls()
        (busy,) = _LONG.unpack_from(tcp_info, _BUSY_AT)
        (acked,) = _LONG.unpack_from(tcp_info, ACKED_AT)
        return cls(busy / 1e6, acked, _INT.unpack_from(tcp_info, _WINDOW_AT)[0])


class SendWindow:
    """Measurements of one connection."""

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
        """Record the kernel's counters.

        Return True if this call ends a measurement that shows the window as the limit. `now` and `round_trip`
        are in seconds.
        """
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
