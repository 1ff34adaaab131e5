"""Detects writes to a cluster that should have none, and names the writer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange
from mirror.errors import Refused, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import CONTROL
from mirror.protocol.control.offsets import LATEST

Ends = Mapping[TopicPartition, int]
_LOOK_SECONDS: Final = 1.0


class StrayBatch(NamedTuple):
    """A batch that was written behind the fence. `producer`: its producer id, -1 without one."""

    place: TopicPartition
    offset: int
    producer: int
    records: int
    time_ms: int

    @property
    def sentence(self) -> str:
        """Description of the batch and its writer."""
        who = f"producer id {self.producer}" if self.producer >= 0 else "a producer without an id"
        return f"{who} wrote to {self.place} at offset {self.offset}"


async def log_ends(cluster: Cluster, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition. Raises Unreachable if any is unknown."""
    found = await cluster.offsets(dict.fromkeys(places, LATEST))
    for place, answer in found.items():
        if answer.error:
            right = f"Describe on topic {place.topic}"
            error = cluster.error(answer.error, f"reading the end of {place} of {cluster.name}", right)
            raise error if not error.retriable else Unreachable(str(error))
    return {place: answer.offset for place, answer in found.items()}


async def stray_batch(cluster: Cluster, before: Ends, after: Ends) -> StrayBatch | None:
    """Return the first batch with records between two looks; markers of transactions do not count.

    Raises Unreachable, NotAuthorized.
    """
    for place, end in sorted(after.items()):
        start = before.get(place, 0)
        if end <= start:
            continue
        span = PartitionRange(cluster, place, start, end)
        async for _, header in span.batches():
            if header is None:
                return StrayBatch(place, start, -1, end - start, -1)
            if not header.attributes & CONTROL:
                return StrayBatch(
                    place, header.base_offset, header.producer_id, header.record_count, header.max_timestamp
                )
    return None


async def watch_ends(
    cluster: Cluster, places: Sequence[TopicPartition], seconds: float, settle_seconds: float
) -> dict[TopicPartition, int]:
    """Return the ends of partitions after no record was written for `seconds`.

    Requests that were in progress may still end within `settle_seconds`; then the time begins. Raises
    Refused that names the writer of a later record, Unreachable.
    """
    begun = cluster.loop.now()
    still_since, ends = begun, await log_ends(cluster, places)
    while cluster.loop.now() - still_since < seconds:
        await cluster.loop.sleep(min(_LOOK_SECONDS, seconds))
        now = await log_ends(cluster, places)
        stray = await stray_batch(cluster, ends, now)
        ends = now
        if stray is None:
            continue
        if cluster.loop.now() - begun > settle_seconds:
            raise Refused(
                f"{stray.sentence} of {cluster.name} in spite of the fence",
                advice="add its principal to dr.NAME.principals, or stop it",
            )
        still_since = cluster.loop.now()
    return ends
