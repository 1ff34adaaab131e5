"""Adds partitions to topics, many with one request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from mirror.client.administration.creation import Attempt, TopicCreations
from mirror.client.cluster import Cluster
from mirror.model.topics import TopicDescription
from mirror.protocol.codes import Code
from mirror.protocol.control.call import Call
from mirror.protocol.control.topics import TopicOutcome, create_partitions
from mirror.wording import counted


class TopicExtensions(TopicCreations):
    """Increases the partition counts of many topics with few requests.

    `wanted`: new partition count by topic. A topic with at least as many partitions counts as extended.
    """

    done: ClassVar = frozenset({Code.NONE})

    def __init__(self, wanted: Mapping[str, int]) -> None:
        super().__init__([TopicDescription(name, count) for name, count in wanted.items()], -1)

    async def refresh(self, cluster: Cluster, attempts: dict[str, Attempt]) -> None:
        """Read the current partition counts: an earlier attempt may have succeeded without a response."""
        await cluster.refresh(attempts)
        for name, attempt in list(attempts.items()):
            known = cluster.topics.get(name)
            present = len(known.leaders) if known is not None and not known.error else 0
            attempt.partitions = attempt.topic.partitions - present
            if attempt.partitions <= 0:
                await self.settle(cluster, attempt, TopicOutcome(Code.NONE, ""))

    def call(self, topics: Sequence[TopicDescription]) -> Call[Mapping[str, TopicOutcome]]:
        """Return the CreatePartitions request for several topics."""
        return create_partitions({topic.name: topic.partitions for topic in topics})

    def purpose(self, topic: TopicDescription) -> tuple[str, str]:
        """Return the operation and the permission that it requires, as texts for error messages."""
        doing = f"cannot increase topic {topic.name} to {counted(topic.partitions, 'partition')}"
        return doing, f"Alter on topic {topic.name}"
