"""Fetches partitions from a source cluster.

There is one channel per broker, isolation level and tier, with one fetch request in flight. Up-to-date lanes
use separate ("live") channels with small responses and their own memory, so that a topic with gigabytes of
backlog cannot delay them. A lane changes its tier when it falls behind or catches up.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from mirror.client.cluster import Cluster
from mirror.lane.lane import Lane
from mirror.model.datastreams.policy import Isolation
from mirror.replication.channels.channel_rules import ChannelKey, FetchListener, ReadingRules
from mirror.replication.channels.fetch_channel import FetchChannel
from mirror.replication.channels.leaders import LeaderSearch, Replicas
from mirror.replication.options import CopyingOptions


class Fetcher:
    """Fetches the partitions of lanes from the brokers of one source cluster."""

    def __init__(
        self, cluster: Cluster, settings: CopyingOptions, listener: FetchListener, rack: str
    ) -> None:
        self.cluster = cluster
        self.listener = listener
        self.rack = rack.encode()
        self._replicas = Replicas(cluster, bool(rack), self._attach_again)
        self._bulk = ReadingRules(
            settings.fetch_wait_ms, settings.fetch_bytes, 0, settings.read_connections, settings.ahead_bytes
        )
        self._live = ReadingRules(settings.fetch_wait_ms, settings.live_fetch_bytes, settings.gather_ms)
        self._channels: dict[tuple[int, ChannelKey], FetchChannel] = {}
        self._search = LeaderSearch(cluster, lambda lane: lane.key.partition.topic, listener.on_relocated)

    @property
    def channels(self) -> Iterable[FetchChannel]:
        """All fetch channels, one or more for each broker in use."""
        return self._channels.values()

    def attach(self, lane: Lane, *, waits: bool = False) -> None:
        """Start to fetch the lane's partition from its leader or preferred replica. Without a leader, wait
        for one."""
        leader = self.cluster.leader(lane.key.partition)
        if leader is None:
            self._search.add([lane])
            return
        broker, near = self._replicas.broker(lane, leader[0])
        committed = lane.spec.policy.isolation is Isolation.READ_COMMITTED
        named = not lane.progress.source.topic_id
        for copy in count():
            channel = self._channel(broker, ChannelKey(committed, lane.read.is_live, near, copy, named))
            if channel.has_room_for(lane):
                channel.attach(lane, waits=waits)
                return

    def follow(self, lane: Lane, replica: int) -> bool:
        """Move the lane to the replica that the leader prefers. Return False if there is no other replica."""
        leader = self.cluster.leader(lane.key.partition)
        if leader is None or not self._replicas.follow(lane, replica, leader[0]):
            return False
        if replica in self.cluster.brokers:
            self._attach_again(lane)
        else:
            self.relocate([lane])  # the broker may be new; refresh the metadata
        return True

    def leave_replica(self, lane: Lane) -> bool:
        """Move the lane to the leader after a follower has failed. Return False if it is already there."""
        if not self._replicas.leave(lane):
            return False
        self._attach_again(lane)
        return True

    def _attach_again(self, lane: Lane) -> None:
        if lane.reader is not None:
            waits = lane.read.waits
            self.detach(lane)
            self.attach(lane, waits=waits)

    def move(self, lane: Lane) -> None:
        """Move the lane to its partition's new leader, which the cached metadata contains."""
        self.detach(lane)
        self._replicas.forget(lane)
        self.listener.on_relocated(lane)

    def _channel(self, broker: int, tier: ChannelKey) -> FetchChannel:
        channel = self._channels.get((broker, tier))
        if channel is None:
            channel = FetchChannel(self, broker, tier, self._live if tier.live else self._bulk)
            self._channels[broker, tier] = channel
        return channel

    def detach(self, lane: Lane) -> None:
        """Stop fetching the lane's partition."""
        self._search.remove(lane)
        if lane.reader is not None:
            lane.reader.detach(lane)

    def change_tier(self, lane: Lane, *, live: bool, waits: bool = False) -> None:
        """Move the lane to the channels for live lanes or for backlogs. With `waits`, the first fetch waits
        for `include`."""
        if lane.read.is_live != live:
            self.detach(lane)
            lane.read.is_live = live
            self.attach(lane, waits=waits)

    def relocate(self, lanes: Iterable[Lane]) -> None:
        """Look up the partition leaders of the given lanes again, and continue to fetch."""
        for lane in (lanes := list(lanes)):
            if lane.reader is not None:
                lane.reader.detach(lane)
            self._replicas.leave(lane)
        self._search.add(lanes)

    def check(self, now: float) -> None:
        """Do the periodic work of all channels that is due at `now`."""
        for channel in self._channels.values():
            channel.check(now)

    def close(self) -> None:
        """Close all fetch channels."""
        for channel in self._channels.values():
            channel.close()
