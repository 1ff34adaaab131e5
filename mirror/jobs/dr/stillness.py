"""Detects writes to a fenced cluster, and identifies their producers."""

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
    """A batch that was written despite the fence.

    `producer`: producer id, -1 if the batch has none.
    """

    place: TopicPartition
    offset: int
    producer: int
    records: int
    time_ms: int

    @property
    def sentence(self) -> str:
        who = f"producer id {self.producer}" if self.producer >= 0 else "a producer without an id"
        return f"{who} wrote to {self.place} at offset {self.offset}"


async def log_ends(cluster: Cluster, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition. Raises Unreachable if an end offset is unknown."""
    found = await cluster.offsets(dict.fromkeys(places, LATEST))
    for place, answer in found.items():
        if answer.error:
            right = f"Describe on topic {place.topic}"
            error = cluster.error(answer.error, f"reading the end of {place} of {cluster.name}", right)
            raise error if not error.retriable else Unreachable(str(error))
    return {place: answer.offset for place, answer in found.items()}


async def stray_batch(cluster: Cluster, before: Ends, after: Ends) -> StrayBatch | None:
    """Return the first data batch that was written between two reads of the end offsets. Control batches are
    ignored.

    `before`, `after`: end offsets of the two reads.

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
    """Wait until no record has been written for `seconds`, and return the end offset of each partition.

    A record within the first `settle_seconds` only restarts the wait, because its request may be in flight.
    Raises Refused with the producer of a later record, and Unreachable.
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
                advice="add the producer's principal to dr.NAME.principals, or stop the producer",
            )
        still_since = cluster.loop.now()
    return ends
