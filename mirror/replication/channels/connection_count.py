"""Increases the number of read-ahead connections as long as each new one raises the read rate.

Pure. A connection carries about one socket buffer of the broker per round trip, regardless of the bandwidth:
1 MB/s with Kafka's default of 100 KB and a round trip of 100 ms. The network and the mirror determine whether
more connections help. This module therefore multiplies the number, measures the rate, and restores the
previous number if the rate has not risen.
"""

from __future__ import annotations

from typing import Final

_FIRST: Final = 4
"""Initial number of additional connections.

Several connections always help: one transfers a response while another response is processed.
"""
_GROWTH: Final = 4
_LEAST_GAIN: Final = 1.25
"""Factor by which the rate must rise to keep the new connections."""
_SETTLE_SECONDS: Final = 0.5
_SETTLE_ROUND_TRIPS: Final = 6
"""Round trips between opening connections and measuring the rate.

After this time, new connections are open and have reached their full rate.
"""
_MEASURE_SECONDS: Final = 1.0
_MEASURE_ROUND_TRIPS: Final = 10
_HOLD_SECONDS: Final = 30.0
"""Seconds before a larger number of connections is tried again."""
_EACH_KEPT: Final = 0.6
"""Share of its rate that each connection must keep when connections are added.

If each keeps this share, its own window is the limit. A common limit would reduce each rate to a quarter.
"""
_VALID_SECONDS: Final = 10.0
"""Seconds after which a measurement is outdated."""
_UNUSED_SECONDS: Final = 30.0
"""Seconds without a large response after which all read-ahead connections are closed."""


class ConnectionCount:
    """Decides how many read-ahead connections to open, from 0 to `most`."""

    __slots__ = (
        *("_before", "_bytes", "_each", "_held_until", "_judged_at", "_measured_from", "_most_each", "_rate"),
        *("_used_at", "count", "most"),
    )

    def __init__(self, most: int) -> None:
        self.most = most
        self.count = 0
        self._before = 0
        """Number of connections before the last change, while the effect of the change is measured."""
        self._rate = 0.0
        """Bytes per second with `_before` connections."""
        self._bytes = 0
        self._measured_from: float | None = None
        self._held_until = 0.0
        self._used_at = self._judged_at = 0.0
        self._each = self._most_each = 0.0
        """Bytes per second of one connection: at the last measurement, and the previous maximum."""

    def note(self, size: int, now: float, round_trip: float) -> int:
        """Register a large response of `size` bytes. Return the number of read-ahead connections to have.

        `now`, `round_trip`: current time and round-trip time in seconds. Call only for partitions with a
        backlog, because connections do not limit other partitions.
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
        """Start to measure the total rate, because the latest connection is now open."""
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
        """Return the rate of one connection in bytes/s if its TCP window is the limit, otherwise 0."""
        is_measured = 0.0 < self._judged_at > now - _VALID_SECONDS and self.count == self.most
        return self._each if is_measured and self._each >= _EACH_KEPT * self._most_each > 0.0 else 0.0

    def is_unused(self, now: float) -> bool:
        """Return whether the read-ahead connections have been unused long enough to be closed."""
        return self.count > 0 and now - self._used_at >= _UNUSED_SECONDS

    def close(self) -> None:
        """Reset the state after the last read-ahead connection was closed."""
        self.count = self._before = self._bytes = 0
        self._rate, self._measured_from, self._held_until = 0.0, None, 0.0
        self._each = self._most_each = self._judged_at = 0.0


def _settle(round_trip: float) -> float:
    return max(_SETTLE_SECONDS, _SETTLE_ROUND_TRIPS * round_trip)
