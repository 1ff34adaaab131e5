"""Measures a cluster's partitions: metadata, end offsets and log sizes.

One measurement needs one Metadata request, one ListOffsets request per leader and one DescribeLogDirs request
per broker, whatever the number of partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import shared_loop
from mirror.adapters.kafka.session import ClusterSession
from mirror.client.cluster import Cluster
from mirror.errors import NotAuthorized
from mirror.model.topics import TopicPartition
from mirror.ports import Clock
from mirror.protocol.control.offsets import LATEST
from mirror.protocol.control.rights import partition_bytes
from mirror.settings import KafkaCluster
from pmp.samples.snapshot import LogSnapshot

_SECONDS: Final = 60.0
"""Maximum seconds that a measurement of a cluster takes; it needs several requests."""
_LEADER_SECONDS: Final = 2.0
"""Maximum seconds by which partitions whose leader changes delay a measurement."""


class KafkaClusterProbe:
    """Measures one cluster over Kafka's protocol. Implements `pmp.ports.ClusterProbe`. Connects at the first
    call."""

    def __init__(self, cluster: KafkaCluster, clock: Clock) -> None:
        self._name = cluster.bootstrap_servers
        self._clock = clock
        self._session = ClusterSession(self._name, "headrace-sampler", partial(usable_access, cluster))

    def snapshot(self) -> LogSnapshot:
        """Read the leaders, end offsets and log sizes of all partitions, in this order.

        Raises Unreachable, NotAuthorized, Refused.
        """
        return shared_loop().ask(
            f"cannot measure {self._name}", _SECONDS, lambda loop: self._session.ask(loop, self._snapshot)
        )

    def close(self) -> None:
        """Close the connections."""
        shared_loop().post(lambda _: self._session.close())

    async def _snapshot(self, cluster: Cluster) -> LogSnapshot:
        leaders = {
            TopicPartition(name, number): broker
            for name, topic in (await cluster.all_topics()).items()
            for number, (broker, _) in enumerate(topic.leaders)
            if broker >= 0
        }
        offsets = await _end_offsets(cluster, leaders)
        offsets_seconds = self._clock.monotonic()
        sizes = await _sizes(cluster, leaders)
        return LogSnapshot(
            time_ms=self._clock.now_ms(),
            offsets_seconds=offsets_seconds,
            sizes_seconds=self._clock.monotonic(),
            leaders=leaders,
            end_offsets=offsets,
            size_bytes=sizes,
        )


async def _end_offsets(cluster: Cluster, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the end offsets of partitions, omitting partitions for which the broker reports an error. Raises
    NotAuthorized."""
    found = await cluster.offsets(dict.fromkeys(leaders, LATEST), seconds=_LEADER_SECONDS)
    for place, answer in found.items():
        if answer.error:
            right = f"Describe on topic {place.topic}"
            problem = cluster.error(answer.error, f"cannot read the end offset of {place}", right)
            if isinstance(problem, NotAuthorized):
                raise problem
    return {place: answer.offset for place, answer in found.items() if not answer.error}


async def _sizes(cluster: Cluster, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the size of each partition's log on its leader in bytes. Raises NotAuthorized, Unreachable,
    Refused."""
    brokers = sorted(set(leaders.values()))
    answers = await cluster.loop.together([cluster.ask(partition_bytes(), broker) for broker in brokers])
    found: dict[TopicPartition, int] = {}
    for broker, answer in zip(brokers, answers, strict=True):
        if answer.error:
            raise cluster.error(answer.error, "cannot read log sizes", "Describe on the cluster")
        found |= {place: size for place, size in answer.sizes.items() if leaders.get(place) == broker}
    return found
