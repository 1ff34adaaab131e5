"""Late segments of remote storage (KIP-405).

A broker that has not fetched a segment in time (`remote.fetch.max.wait.ms`), or that serves the segment of
another partition first, returns no records although the log has some.
"""

from __future__ import annotations

from typing import Any, Final

from tests.fakes.broker.cluster import FakeCluster
from tests.fakes.broker.faults import Edit, HandledRequest

_FETCH: Final = 1


def delay_segments(cluster: FakeCluster, topic: str, times: int) -> None:
    """Keep the topic in remote storage, and let the next responses of fetches of it have no records."""
    identity = cluster.topics[topic].identity
    for stored in cluster.topics[topic].partitions:
        stored.log.tiered_to = stored.log.end

    def is_of_topic(asked: HandledRequest) -> bool:
        topics = asked.message.topics  # empty in a session whose positions are unchanged
        return not topics or any(one.topic_id == identity for one in topics)

    def empty(response: Any) -> None:
        for one in response.responses:
            if one.topic_id == identity:
                for partition in one.partitions:
                    partition.records = b""

    cluster.faults.plant(_FETCH, Edit(empty), times=times, fits=is_of_topic)
