"""Flow control of lanes: how many bytes to fetch now, and from which replica.

Pure; the clock is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Final

from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.identifiers import GroupName


class TokenBucket:
    """Quota in bytes per second that allows bursts of one second.

    A batch is never split for a quota, so the balance may become negative; the debt is paid before the next
    take. `owner`: level at which the quota is set. `for_catching_up`: the quota does not apply to up-to-date
    lanes.
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
        """Set a new quota in bytes per second, and limit the balance to one second of it."""
        self._refill(now)
        self._rate = bytes_per_second
        self._tokens = min(self._tokens, bytes_per_second)

    @property
    def bytes_per_second(self) -> float:
        """The quota in bytes per second."""
        return self._rate

    @property
    def share_bytes(self) -> int:
        """Number of bytes to take at once: an eighth of a second of the quota, at least 16 KiB."""
        return max(int(self._rate / 8), 16 * 1024)

    def seconds_until_open(self, now: float) -> float:
        """Return the seconds until the quota allows more bytes; 0 if it allows them now."""
        self._refill(now)
        return 0.0 if self._tokens > 0 else (1.0 - self._tokens) / self._rate

    def take(self, size_bytes: int, now: float) -> None:
        """Subtract `size_bytes` from the balance of the quota."""
        self._refill(now)
        self._tokens -= size_bytes

    def _refill(self, now: float) -> None:
        self._tokens = min(self._rate, self._tokens + (now - self._at) * self._rate)
        self._at = now


class QuotaBuckets:
    """Quotas that the lanes of this worker share, for tasks and datastreams. `now`: monotonic seconds."""

    def __init__(self, now: Callable[[], float], task_bytes_per_second: int) -> None:
        self._now = now
        self._task_bytes_per_second = task_bytes_per_second
        self._buckets: dict[tuple[str, str], TokenBucket] = {}
        self._shares: Mapping[GroupName, float] = {}

    def first(self, spec: LaneSpec) -> tuple[TokenBucket, ...]:
        """Return the quotas that limit a new lane: those of its task and its datastream. Until this worker
        has a share, the whole quota of the datastream applies."""
        return self._buckets_of(spec, self._shares.get(spec.key.group, spec.policy.bytes_per_second))

    def shared(self, spec: LaneSpec) -> tuple[TokenBucket, ...]:
        """Return the quotas that limit a running lane: this worker's shares of them."""
        return self._buckets_of(spec, self._shares.get(spec.key.group, 0.0))

    def _buckets_of(self, spec: LaneSpec, quota: float) -> tuple[TokenBucket, ...]:
        rates = (
            ("task", spec.task, self._task_bytes_per_second),
            ("datastream", spec.key.group, quota),
        )
        found = []
        for kind, name, rate in rates:
            if rate:
                bucket = self._buckets.get((kind, name))
                if bucket is None:
                    bucket = self._buckets[kind, name] = TokenBucket(rate, self._now(), kind)
                found.append(bucket)
        return tuple(found)

    def share(self, shares: Mapping[GroupName, float]) -> set[GroupName]:
        """Set this worker's share of each group's quota in bytes per second. Return the groups whose share
        changed. Groups without an entry have no quota."""
        changed = {
            group
            for group in shares.keys() | self._shares.keys()
            if shares.get(group) != self._shares.get(group)
        }
        self._shares = dict(shares)
        for group in changed:
            bucket = self._buckets.get(("datastream", group))
            if bucket is not None and group in shares:
                bucket.set_rate(shares[group], self._now())
            elif bucket is not None:
                del self._buckets["datastream", group]
        return changed


class HeldTime:
    """Sum of the times during which a lane was delayed. Overlapping delays count once."""

    __slots__ = ("_from", "_passed", "_until")

    def __init__(self) -> None:
        self._from = 0.0
        self._until = 0.0
        self._passed = 0.0

    def hold(self, now: float, until: float) -> None:
        """Add a delay from `now` until at least `until` (monotonic seconds)."""
        self._pass(now)
        self._from, self._until = now, max(self._until, until)

    def take(self, now: float) -> float:
        """Return the seconds of delay since the previous call."""
        self._pass(now)
        passed, self._passed = self._passed, 0.0
        return passed

    def _pass(self, now: float) -> None:
        end = min(now, self._until)
        if end > self._from:
            self._passed += end - self._from
            self._from = end


_LEASE_SECONDS: Final = 300.0
"""Seconds to read from a preferred replica before reading from the leader again.

Kafka's consumer uses `metadata.max.age.ms` for this.
"""
_AWAY_SECONDS: Final = 30.0
"""Seconds to read from the leader after a replica has failed.

Until the controller notices the failure, the leader may redirect clients to the dead replica. Requests in
this time therefore omit the client's rack, so that the leader itself returns the records.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Replica:
    """Replica to fetch from until a time (monotonic seconds). `broker`: None for the leader. Requests to the
    leader omit the client's rack, so that the leader does not redirect the client."""

    broker: int | None
    until: float

    def is_usable(self, leader: int, brokers: Container[int], now: float) -> bool:
        """Return whether the lane may still fetch from this replica."""
        if now >= self.until:
            return False
        return self.broker is None or (self.broker != leader and self.broker in brokers)


def named(broker: int, present: Replica | None, leader: int, brokers: Container[int], now: float) -> Replica:
    """Return the replica to fetch from after a Fetch response has named a preferred one.

    `present`: the replica that sent the response, None for the leader. The leader is returned if a replica
    names another replica, which could become a loop, or if the metadata does not contain the named broker.
    """
    if present is not None or broker == leader or broker not in brokers:
        return avoided(now)
    return Replica(broker, now + _LEASE_SECONDS)


def avoided(now: float) -> Replica:
    """Return the replica to fetch from after a replica has failed: the leader, for `_AWAY_SECONDS`."""
    return Replica(None, now + _AWAY_SECONDS)
