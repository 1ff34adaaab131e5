"""Increases the number of connections for reading as long as the rate rises.

Pure. A connection carries about one socket buffer of the broker per round trip, regardless of the bandwidth:
1 MB/s with Kafka's default of 100 KB and a round trip of 100 ms. Whether more connections help depends on the
network and on the mirror. This module therefore tries: it multiplies the number, measures the rate, and
restores the previous number if the rate has not risen.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = 4
"""Initial number of additional connections.

Several connections help even without a window limit, because a response is transferred while another one is
processed.
"""
_GROWTH: Final = 4
_LEAST_GAIN: Final = 1.25
"""Factor by which the rate must rise; otherwise the previous number of connections is restored."""
_SETTLE_SECONDS: Final = 0.5
_SETTLE_ROUND_TRIPS: Final = 6
"""Round trips to wait before the rate is measured.

New connections then are open and have reached their full rate.
"""
_MEASURE_SECONDS: Final = 1.0
_MEASURE_ROUND_TRIPS: Final = 10
_HOLD_SECONDS: Final = 30.0
"""Time before a larger number of connections is tried again."""
_EACH_KEPT: Final = 0.6
"""Share of its former rate that a connection must keep when there are more connections.

If the rate stays above this share, the window of each connection is the limit. A limit shared by all
connections would reduce the rate to a quarter.
"""
_VALID_SECONDS: Final = 10.0
"""Time after which a measurement is outdated."""
_UNUSED_SECONDS: Final = 30.0
"""Time without a large response after which all additional connections are closed."""


class ConnectionCount:
    """Number of additional connections, from 0 to `most`."""

    __slots__ = (
        *("_before", "_bytes", "_each", "_held_until", "_judged_at", "_measured_from", "_most_each", "_rate"),
        *("_used_at", "count", "most"),
    )

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self._before = 0
        """Number before the last change, while the effect of the change is measured."""
        self._rate = 0.0
        """Bytes per second with `_before` connections."""
        self._bytes = 0
        self._measured_from: float | None = None
        self._held_until = 0.0
        self._used_at = self._judged_at = 0.0
        self._each = self._most_each = 0.0
        """Rate of one connection (bytes/s): at the last measurement, and the maximum with fewer
        connections."""

    def note(self, size: int, now: float, round_trip: float) -> int:
        """Record a large response of `size` bytes, and return the new number of connections.

        `now` and `round_trip` are in seconds. Only for responses of partitions with a backlog: the
        connections do not limit the rate of other partitions.
        """
        self._used_at = now
        if self._measured_from is None:
            self.count = self._before = min(_FIRST, self.most)
            self._restart(now, _settle(round_trip))
        if now < self._start():
            return self.count
        self._bytes += size
        seconds = now - self._start()
        if seconds < max(_MEASURE_SECONDS, _MEASURE_ROUND_TRIPS * round_trip):
            return self.count
        self._judge(self._bytes / seconds, now, round_trip)
        return self.count

    def opened(self, now: float, round_trip: float) -> None:
        """Record that the last connection is open.

        The rate measured from now on is that of all connections.
        """
        self._restart(now, _settle(round_trip))

    def _judge(self, rate: float, now: float, round_trip: float) -> None:
        is_trial = self.count > self._before
        self._judged_at, self._each = now, rate / self.count
        if is_trial and rate < _LEAST_GAIN * self._rate:
            self.count, self._held_until = self._before, now + _HOLD_SECONDS
        elif now >= self._held_until and self.count < self.most:
            self._before, self._rate = self.count, rate
            self._most_each = max(self._most_each, self._each)
            self.count = min(self.count * _GROWTH, self.most)
        else:
            self._before = self.count
        self._restart(now, _settle(round_trip))

    def _restart(self, now: float, settle: float) -> None:
        self._measured_from, self._bytes = now + settle, 0

    def _start(self) -> float:
        return self._measured_from or 0.0

    def bytes_each(self, now: float) -> float:
        """Return the rate of one connection if its window is the limit (bytes/s), otherwise 0."""
        is_measured = 0.0 < self._judged_at > now - _VALID_SECONDS and self.count == self.most
        return self._each if is_measured and self._each >= _EACH_KEPT * self._most_each > 0.0 else 0.0

    def is_unused(self, now: float) -> bool:
        """Return whether the connections should be closed, because nothing was read for some time."""
        return self.count > 0 and now - self._used_at >= _UNUSED_SECONDS

    def close(self) -> None:
        """Reset the state, because no additional connection is left."""
        self.count = self._before = self._bytes = 0
        self._rate, self._measured_from, self._held_until = 0.0, None, 0.0
        self._each = self._most_each = self._judged_at = 0.0


def _settle(round_trip: float) -> float:
    return max(_SETTLE_SECONDS, _SETTLE_ROUND_TRIPS * round_trip)
