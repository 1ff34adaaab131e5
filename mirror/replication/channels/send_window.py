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
_SHARE: Final = 0.5
"""Share of the time with data to send during which a full window limits the connection."""
_SEND_AT: Final = 168
"""Place of `tcpi_busy_time` and `tcpi_rwnd_limited`, in microseconds, in `struct tcp_info` of Linux."""
_WINDOW_AT: Final = 228
"""Place of `tcpi_snd_wnd`, in bytes (since Linux 5.4)."""
_TIMES: Final = struct.Struct("=QQ")
_BYTES: Final = struct.Struct("=I")
INFO_BYTES: Final = _WINDOW_AT + _BYTES.size
"""Size of the part of that structure which is read here."""


class SendLimits(NamedTuple):
    """Seconds with data to send since the start of a connection, seconds thereof with a full window of the
    receiver, and the size of the window. All 0 if unknown."""

    busy: float = 0.0
    window_limited: float = 0.0
    window_bytes: int = 0

    @classmethod
    def of(cls, tcp_info: bytes) -> SendLimits:
        """Return the figures in the first `INFO_BYTES` of `struct tcp_info`; unknown ones if it is empty."""
        if not tcp_info:
            return cls()
        busy, limited = _TIMES.unpack_from(tcp_info, _SEND_AT)
        return cls(busy / 1e6, limited / 1e6, _BYTES.unpack_from(tcp_info, _WINDOW_AT)[0])


class SendWindow:
    """Measurements of one connection."""

    __slots__ = ("_before", "_since")

    def __init__(self) -> None:
        self._since: float | None = None
        self._before = SendLimits()

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
