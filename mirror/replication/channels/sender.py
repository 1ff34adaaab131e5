"""Produces batches to a destination cluster.

Each broker has three channels, and another channel for under-replicated partitions. A distant broker has a
channel for each partition, up to a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.connection import FAR_SECONDS
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.lane import Lane
from mirror.replication.channels.channel_rules import ProduceListener
from mirror.replication.channels.leaders import LeaderSearch
from mirror.replication.channels.parallel_writes import DistantBrokers
from mirror.replication.channels.produce_channel import SLOW_ROLE, ProduceChannel
from mirror.replication.options import CopyingOptions

ROLES: Final = ("produce 0", "produce 1", "produce 2")
"""Names of the connections to a broker.

A broker processes the requests of a connection in order. With several connections, it can receive one request
while it stores the batches of another (`python -m bench mirror_drain`).
"""


class Sender:
    """Sends the batches of lanes to the brokers of one destination cluster."""

    def __init__(
        self, cluster: Cluster, settings: CopyingOptions, listener: ProduceListener, budget: ByteBudget
    ) -> None:
        self.cluster = cluster
        self.listener = listener
        self._settings = settings
        self.distant = DistantBrokers(cluster, settings.write_connections, budget, listener)
        self._channels: dict[int, list[ProduceChannel]] = {}
        """Produce channels by broker; the channel for slow partitions is first."""
        self._search = LeaderSearch(
            cluster, lambda lane: lane.spec.destination_topic, listener.on_target_relocated
        )

    @property
    def channels(self) -> Iterable[ProduceChannel]:
        """All produce channels, to each broker in use."""
        return [channel for channels in self._channels.values() for channel in channels]

    def attach(self, lane: Lane) -> None:
        """Send the lane's batches to the leader of its partition. Without a leader, wait for one."""
        leader = self.cluster.leader(lane.target)
        if leader is None:
            self._search.add([lane])
            return
        self._channel(lane, leader[0]).attach(lane)

    def _channel(self, lane: Lane, broker: int) -> ProduceChannel:
        channels = self._channels.get(broker)
        if channels is None:
            channels = [ProduceChannel(self, broker, role, self._settings) for role in (SLOW_ROLE, *ROLES)]
            self._channels[broker] = channels
        if lane.queue.is_slow:
            return channels[0]
        found = min(channels[1:], key=lambda channel: channel.lanes)
        if found.lanes and len(channels) <= self._settings.write_connections and self._is_far(broker):
            # A distant broker takes about one socket buffer per round trip from a connection.
            found = ProduceChannel(self, broker, f"produce {len(channels) - 1}", self._settings)
            channels.append(found)
        return found

    def _is_far(self, broker: int) -> bool:
        return self.cluster.connections.round_trip(broker) >= FAR_SECONDS

    def detach(self, lane: Lane) -> None:
        """Stop sending the lane's batches. Requires that no batch is in flight."""
        self._search.remove(lane)
        if lane.writer is not None:
            lane.writer.detach(lane)

    def relocate(self, lanes: Iterable[Lane]) -> None:
        """Look up the partition leaders of the given lanes again, and continue to send."""
        lanes = list(lanes)
        for lane in lanes:
            if lane.writer is not None:
                lane.writer.detach(lane)
        self._search.add(lanes)

    def follow_leader(self, lane: Lane) -> bool:
        """Send to the partition's new leader. Return False if the metadata does not contain it."""
        leader = self.cluster.leader(lane.target)
        if leader is None or lane.writer is None or leader[0] == lane.writer.broker:
            return False
        lane.writer.detach(lane)
        self.listener.on_target_relocated(lane)
        return True

    def close(self) -> None:
        """Close all produce channels."""
        for channels in self._channels.values():
            for channel in channels:
                channel.close()
        self.distant.close()
