"""Detection of connections that the receive window of a broker limits. Pure.

A connection carries at most a window for each round trip. A broker with fixed socket buffers (Kafka's default
is 100 KB) never opens its window further; otherwise the kernel does so within some round trips.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_MEASURE_SECONDS: Final = 0.5
_MEASURE_ROUND_TRIPS: Final = 8
"""Time in which a kernel that sizes the window itself has opened it."""
_BUSY: Final = 0.5
"""Share of the time from which on a connection with data to send is judged by its rate."""
_FULL: Final = 0.6
"""Share of the window that a connection carries per round trip if the window limits it. The kernel's own
measure, `tcpi_rwnd_limited`, is too low: it leaves out the time for which the kernel delays segments, to send
several at once. A window that the kernel sizes is about twice what the network carries, or more."""
_ACKED_AT: Final = 120
"""Place of `tcpi_bytes_acked` in `struct tcp_info` of Linux."""
_BUSY_AT: Final = 168
"""Place of `tcpi_busy_time`, in microseconds."""
_WINDOW_AT: Final = 228
"""Place of `tcpi_snd_wnd`, in bytes (since Linux 5.4)."""
_LONG: Final = struct.Struct("=Q")
_INT: Final = struct.Struct("=I")
INFO_BYTES: Final = _WINDOW_AT + _INT.size
"""Size of the part of that structure which is read here."""


class SendLimits(NamedTuple):
    """Seconds with data to send since the start of a connection, bytes that the receiver has acknowledged
    since then, and the size of its window in bytes. All 0 if unknown."""

    busy: float = 0.0
    acked_bytes: int = 0
    window_bytes: int = 0

    @classmethod
    def of(cls, tcp_info: bytes) -> SendLimits:
        """Return the figures in the first `INFO_BYTES` of `struct tcp_info`; unknown ones if it is empty."""
        if not tcp_info:
            return cls()
        (busy,) = _LONG.unpack_from(tcp_info, _BUSY_AT)
        (acked,) = _LONG.unpack_from(tcp_info, _ACKED_AT)
        return cls(busy / 1e6, acked, _INT.unpack_from(tcp_info, _WINDOW_AT)[0])


class SendWindow:
    """Measurements of one connection."""

    __slots__ = ("_before", "_since", "_window_bytes", "is_limit")

    def __init__(self) -> None:
        self.is_limit = False
        """Result of the last measurement: whether the window limited the connection."""
        self._since: float | None = None
        self._before = SendLimits()
        self._window_bytes = 0
        """Largest window since then; a broker that is slow for a moment offers less."""

    def note(self, limits: SendLimits, now: float, round_trip: float) -> bool:
        """Note the kernel's figures, and return whether a measurement has ended by which the window limits
        the connection.

        `now` and `round_trip` in seconds.
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
