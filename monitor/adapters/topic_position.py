"""Position of a reader in the metrics topic, so that each call reads only new records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.bulkheads import Bulkhead
from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, TopicRecreated, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.control.offsets import EARLIEST, LATEST


@dataclass
class TopicPosition:
    """Next offset to read, by partition. `topic_id`: id of the topic that was read, empty before the first
    call."""

    next: dict[int, int] = field(default_factory=dict)
    topic_id: bytes = b""

    async def ranges(
        self, client: TopicClient, cluster: Cluster, since_ms: int
    ) -> Mapping[TopicPartition, range]:
        """Return the offsets to read of each available partition. A partition without a position begins with
        its first record at `since_ms` (epoch ms).

        Raises TopicRecreated if the topic was created again since the last call, TopicMissing, Unreachable,
        NotAuthorized.
        """
        ends = await client.available_offsets(cluster, await client.partitions(cluster), LATEST)
        topic_id = cluster.topic_id(client.topic)
        if self.topic_id not in (b"", topic_id) or any(
            self.next.get(place.partition, 0) > end for place, end in ends.items()
        ):
            raise TopicRecreated(f"{client.topic} was created again")
        self.topic_id = topic_id
        new = [place for place in ends if place.partition not in self.next]
        starts = await first_offsets(client, cluster, new, since_ms, ends)
        self.next |= {place.partition: start for place, start in starts.items()}
        firsts = await client.available_offsets(cluster, ends, EARLIEST)
        return {
            place: range(max(self.next[place.partition], first), ends[place])
            for place, first in firsts.items()
            if place.partition in self.next
        }

    async def read(
        self,
        client: TopicClient,
        cluster: Cluster,
        ranges: Mapping[TopicPartition, range],
        add: Callable[[bytes], None],
    ) -> None:
        """Pass the values of the records in `ranges` to `add`, and advance the position. A record for which
        `add` raises is logged and skipped.

        The next call continues a partition that becomes unavailable. Raises Unreachable if this happens to
        all partitions with new records.
        """
        failed: dict[TopicPartition, HeadraceError] = {}
        for place, offsets in ranges.items():
            try:
                async for record in client.records(cluster, place, offsets.start, offsets.stop):
                    with Bulkhead(partial(client.note_invalid, place, record.offset)):
                        add(record.value or b"")
                    self.next[place.partition] = record.offset + 1
            except Unreachable as error:
                failed[place] = error
                if len(failed) == sum(map(bool, ranges.values())):
                    raise
            else:
                self.next[place.partition] = max(offsets.stop, self.next[place.partition])
        if failed:
            client.note_unavailable(failed)


async def first_offsets(
    client: TopicClient,
    cluster: Cluster,
    places: Collection[TopicPartition],
    since_ms: int,
    ends: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset of the first record of each available partition at `since_ms` (epoch ms) or later;
    its end without such a record."""
    starts = await client.available_offsets(cluster, places, since_ms)
    return {place: ends[place] if start < 0 else start for place, start in starts.items()}
