"""Flow control: how much may be taken now, how much is asked for, and which replica is asked. Pure; the clock
is passed in."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final


def bytes_to_ask(share: int, most: int, batch: int, spread: int) -> int:
    """Bytes of a partition to ask a broker for: about its `share`, whole batches, at least one of them, and
    otherwise not more than `most`. `batch`: the largest that came lately, 0 when that is not known; `spread`:
    how much sizes have differed, see `spread_of`.

    A broker cuts its answer off at the bytes asked for. What it has sent of the last batch is useless, and is
    sent again. So there is room for a batch that is larger than those before, as far as batches of
    this partition differ: room that is not needed is filled with a part of one more. And the number of
    batches is the nearest, not the next: where it is too high, responses are full before they have come to
    every partition, and a produce request takes one batch of each partition that there is.
    """
    allowed = min(share, most)
    if not batch:
        return allowed
    roomy = batch + min(_DEVIATIONS * spread, batch // _MOST_ROOM)
    count = max((allowed + roomy // 2) // roomy, 1)
    return roomy * (count - 1 if count > 1 and roomy * count > most else count)


def spread_of(spread: int, expected: int, size: int) -> int:
    """The mean deviation of batch sizes in bytes, as RFC 6298 estimates that of round trips: `size` came
    where `expected` was thought of."""
    return spread + (abs(size - expected) - spread) // 4


_DEVIATIONS: Final = 4
"""RFC 6298's factor too."""
_MOST_ROOM: Final = 16
"""At most this part of a batch is left as room."""


class TokenBucket:
    """A quota in bytes per second that allows bursts of one second and debt of one take; `owner`: whose.
    `for_catching_up`: who is up to date does not wait for it.

    A take may exceed what is left (a batch is never cut for a quota); the debt is paid before the
    next one.
    """

    def __init__(
        self, bytes_per_second: float, now: float, owner: str = "", *, for_catching_up: bool = False
    ) -> None:
        self.owner = owner
        self.for_catching_up = for_catching_up
        self._rate = bytes_per_second
        self._tokens = bytes_per_second
        self._at = now

    def set_rate(self, bytes_per_second: float, now: float) -> None:
        """Another quota from now on; what had been saved up under the old one counts up to the new one."""
        self._refill(now)
        self._rate = bytes_per_second
        self._tokens = min(self._tokens, bytes_per_second)

    @property
    def bytes_per_second(self) -> float:
        """The quota."""
        return self._rate

    @property
    def share_bytes(self) -> int:
        """A good size of one take: small enough that its debt holds nobody up for long."""
        return max(int(self._rate / 8), 16 * 1024)

    def seconds_until_open(self, now: float) -> float:
        """0 when something may be taken now, else the wait in seconds."""
        self._refill(now)
        return 0.0 if self._tokens > 0 else (1.0 - self._tokens) / self._rate

    def take(self, size_bytes: int, now: float) -> None:
        """Note what was taken."""
        self._refill(now)
        self._tokens -= size_bytes

    def _refill(self, now: float) -> None:
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now


class HeldTime:
    """For how long something is held back. What still lies ahead counts when it has passed."""

    __slots__ = ("_from", "_passed", "_until")

    def __init__(self) -> None:
        self._from = 0.0
        self._until = 0.0
        self._passed = 0.0

    def hold(self, now: float, until: float) -> None:
        """It is held back from `now` on, in monotonic seconds, at least up to that moment."""
        self._pass(now)
        self._from, self._until = now, max(self._until, until)

    def take(self, now: float) -> float:
        """The seconds since the last call in which it was held back."""
        self._pass(now)
        passed, self._passed = self._passed, 0.0
        return passed

    def _pass(self, now: float) -> None:
        end = min(now, self._until)
        if end > self._from:
            self._passed += end - self._from
            self._from = end


_LEASE_SECONDS: Final = 300.0
"""After that the leader is asked again, as Kafka's consumer does (its `metadata.max.age.ms`)."""
_AWAY_SECONDS: Final = 30.0
"""How long the leader is read after a replica has failed. A leader goes on naming a replica that is gone
until the controller has noticed that, so it is asked without our rack meanwhile, and sends the records."""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """A broker to read instead of asking the leader for one, until that moment in monotonic seconds.
    `broker` is None for the leader, which is asked without our rack."""

    broker: int | None
    until: float

    def is_usable(self, leader: int, brokers: Container[int], now: float) -> bool:
        """Whether it is still to be read."""
        if now >= self.until:
            return False
        return self.broker is None or (self.broker != leader and self.broker in brokers)


def named(broker: int, present: Replica | None, leader: int, brokers: Container[int], now: float) -> Replica:
    """What to read after an answer that only names this broker, when `present` was read.

    A replica that names another one, and a name that the metadata lack, could lead in circles: the leader is
    read instead.
    """
    if present is not None or broker == leader or broker not in brokers:
        return avoided(now)
    return Replica(broker, now + _LEASE_SECONDS)


def avoided(now: float) -> Replica:
    """What to read after a replica has failed: the leader, for a while."""
    return Replica(None, now + _AWAY_SECONDS)
