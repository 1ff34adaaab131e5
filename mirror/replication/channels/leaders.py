"""Finds the leaders of partitions, and chooses the replicas to fetch from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.lane.flow import Replica, avoided, named
from mirror.lane.lane import Lane
from mirror.loggers import get_logger

_log = get_logger(__name__)
_SEARCH_SECONDS: Final = 0.1
"""Minimum seconds between two metadata requests."""


class LeaderSearch:
    """Finds the partition leaders of lanes by refreshing metadata, at most ten times per second. `found`:
    called for each lane after a refresh. `found` attaches the lane to a leader, or adds the lane to this
    search again."""

    def __init__(
        self, cluster: Cluster, topic_of: Callable[[Lane], str], found: Callable[[Lane], None]
    ) -> None:
        self._cluster = cluster
        self._topic_of = topic_of
        self._found = found
        self._lanes: dict[Lane, None] = {}
        self._is_running = False
        self._requested_at = -_SEARCH_SECONDS

    def add(self, lanes: Iterable[Lane]) -> None:
        """Find the partition leaders of the given lanes."""
        self._lanes.update(dict.fromkeys(lanes))
        if not self._is_running and self._lanes:
            self._is_running = True
            self._cluster.loop.spawn(self._search())

    def remove(self, lane: Lane) -> None:
        """Stop looking for the leader of the lane's partition."""
        self._lanes.pop(lane, None)

    async def _search(self) -> None:
        try:
            while self._lanes:
                wait = self._requested_at + _SEARCH_SECONDS - self._cluster.loop.now()
                if wait > 0:
                    await self._cluster.loop.sleep(wait)
                self._requested_at = self._cluster.loop.now()
                try:
                    await self._cluster.refresh({self._topic_of(lane) for lane in self._lanes})
                except HeadraceError as error:
                    _log.debug("cannot refresh metadata", cluster=self._cluster.name, reason=str(error))
                else:
                    lanes, self._lanes = self._lanes, {}
                    for lane in lanes:
                        self._found(lane)
        finally:
            self._is_running = False


class Replicas:
    """Chooses the replica that each lane fetches from (KIP-392). `again`: called for a lane that must be
    attached to its partition leader again."""

    def __init__(self, cluster: Cluster, has_rack: bool, again: Callable[[Lane], None]) -> None:
        self._cluster = cluster
        self._has_rack = has_rack
        self._again = again

    def broker(self, lane: Lane, leader: int) -> tuple[int, bool]:
        """Return the broker to fetch the lane's partition from, and whether to send the client's rack."""
        now = self._cluster.loop.now()
        if lane.read.replica is not None and not lane.read.replica.is_usable(
            leader, self._cluster.brokers, now
        ):
            lane.read.replica = None
        replica = lane.read.replica
        if replica is None:
            return leader, self._has_rack
        return (leader, False) if replica.broker is None else (replica.broker, self._has_rack)

    def follow(self, lane: Lane, replica: int, leader: int) -> bool:
        """Move the lane to the replica that the leader prefers. Return False if there is no other replica."""
        present = lane.read.replica
        if present is not None and present.broker is None:
            return False
        now = self._cluster.loop.now()
        self._choose(lane, named(replica, present, leader, self._cluster.brokers, now))
        return True

    def leave(self, lane: Lane) -> bool:
        """Move the lane to the leader for a while. Return False if it already fetches from the leader."""
        if lane.read.replica is None or lane.read.replica.broker is None:
            return False
        self._choose(lane, avoided(self._cluster.loop.now()))
        return True

    def forget(self, lane: Lane) -> None:
        """Move the lane from the chosen replica to the leader."""
        lane.read.replica = None

    def _choose(self, lane: Lane, replica: Replica) -> None:
        _log.debug("replica chosen", cluster=self._cluster.name, **lane.key.log_fields, broker=replica.broker)
        lane.read.replica = replica
        wait = replica.until - self._cluster.loop.now()
        self._cluster.loop.call_later(wait, lambda: self._end(lane, replica))

    def _end(self, lane: Lane, replica: Replica) -> None:
        if lane.read.replica is replica:
            lane.read.replica = None
            self._again(lane)
