"""Clock skew of brokers, measured with the timestamps that they assign to records. Pure.

With `message.timestamp.type=LogAppendTime`, a broker assigns the timestamp between the produce request and
its acknowledgement. Therefore, the skew is the timestamp minus the midpoint of request and acknowledgement.
The error of the skew is at most half the time between them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VALID_MS: Final = 300_000
"""Time in ms for which a measured clock skew is valid. A synchronised clock drifts by less than 0.1 s
meanwhile."""
_STEP_MS: Final = 1
"""Resolution of both clocks in ms."""


class ClockSkew(NamedTuple):
    """Skew of a broker's clock. `ahead_ms`: time by which it is ahead of our clock, negative if it is behind.
    `bound_ms`: maximum error."""

    ahead_ms: float
    bound_ms: float

    @property
    def least_ms(self) -> float:
        """Lower bound of the absolute clock skew in ms."""
        return max(abs(self.ahead_ms) - self.bound_ms, 0.0)


def skew_of(sent_ms: int, stamped_ms: int, answered_ms: int) -> ClockSkew:
    """Return the clock skew of a broker from one acknowledgement. `sent_ms`, `answered_ms`: times of request
    and acknowledgement by our clock (epoch ms)."""
    between_ms = max(answered_ms - sent_ms, 0)
    return ClockSkew(stamped_ms - sent_ms - between_ms / 2, between_ms / 2 + _STEP_MS)


class BrokerClocks:
    """Best recent measurement of each broker's clock skew, for one cluster."""

    def __init__(self) -> None:
        self._of_broker: dict[int, tuple[int, ClockSkew]] = {}

    def acknowledged(self, broker: int, sent_ms: int, stamped_ms: int, answered_ms: int) -> None:
        """Update the clock skew of a broker from the timestamp that it assigned to a write. `stamped_ms`:
        append time by the broker's clock, negative if the broker returns none (topics with create time)."""
        if stamped_ms < 0:
            return
        found = skew_of(sent_ms, stamped_ms, answered_ms)
        before_ms, before = self._of_broker.get(broker, (0, found))
        is_old = abs(answered_ms - before_ms) >= _VALID_MS
        is_moved = abs(found.ahead_ms - before.ahead_ms) > found.bound_ms + before.bound_ms
        if is_old or is_moved or found.bound_ms <= before.bound_ms:
            self._of_broker[broker] = answered_ms, found

    def worst(self, now_ms: int) -> ClockSkew | None:
        """Return the clock skew of the broker with the largest one, or None without a valid measurement."""
        valid = [skew for at_ms, skew in self._of_broker.values() if abs(now_ms - at_ms) < _VALID_MS]
        return max(valid, key=lambda skew: (skew.least_ms, abs(skew.ahead_ms)), default=None)
