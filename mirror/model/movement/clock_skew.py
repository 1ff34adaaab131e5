"""How far the clocks of brokers are off from ours, by the times that they stamp on what we write. Pure.

A broker that stamps a record (`message.timestamp.type=LogAppendTime`) does so between our request and its
acknowledgement. So its clock is off by the stamp less the middle of the two, to half of what lies between
them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_VALID_MS: Final = 300_000
"""A clock that is kept in time drifts by less than a tenth of a second in that; one that was set is seen."""
_STEP_MS: Final = 1
"""Both clocks are read to a whole millisecond."""


class ClockSkew(NamedTuple):
    """`ahead_ms`: of ours, below 0: behind it; to `bound_ms` either way."""

    ahead_ms: float
    bound_ms: float

    @property
    def least_ms(self) -> float:
        """By how much the clocks differ at least."""
        return max(abs(self.ahead_ms) - self.bound_ms, 0.0)


def skew_of(sent_ms: int, stamped_ms: int, answered_ms: int) -> ClockSkew:
    """By one acknowledgement; the first and the last by our clock, in epoch milliseconds."""
    between_ms = max(answered_ms - sent_ms, 0)
    return ClockSkew(stamped_ms - sent_ms - between_ms / 2, between_ms / 2 + _STEP_MS)


class BrokerClocks:
    """By broker of one cluster: the acknowledgement of the last minutes that bounds the skew best."""

    def __init__(self) -> None:
        self._of_broker: dict[int, tuple[int, ClockSkew]] = {}

    def acknowledged(self, broker: int, sent_ms: int, stamped_ms: int, answered_ms: int) -> None:
        """A write was stamped; a negative `stamped_ms` is no stamp, as of topics with create times."""
        if stamped_ms < 0:
            return
        found = skew_of(sent_ms, stamped_ms, answered_ms)
        before_ms, before = self._of_broker.get(broker, (0, found))
        is_old = abs(answered_ms - before_ms) >= _VALID_MS
        is_moved = abs(found.ahead_ms - before.ahead_ms) > found.bound_ms + before.bound_ms
        if is_old or is_moved or found.bound_ms <= before.bound_ms:
            self._of_broker[broker] = answered_ms, found

    def worst(self, now_ms: int) -> ClockSkew | None:
        """Of the broker that is off by most; None while none has stamped anything for some minutes."""
        valid = [one for at_ms, one in self._of_broker.values() if abs(now_ms - at_ms) < _VALID_MS]
        return max(valid, key=lambda one: (one.least_ms, abs(one.ahead_ms)), default=None)
