"""Detects writes to a fenced cluster, and identifies their producers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.log_reader import PartitionRange
from mirror.errors import HeadraceError, Refused, Unreachable
from mirror.loggers import get_logger
from mirror.model.bounds import shown
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import CONTROL, TRANSACTIONAL
from mirror.protocol.control.offsets import LATEST
from mirror.protocol.control.transactions import list_transactions

_log = get_logger(__name__)
Ends = Mapping[TopicPartition, int]
_LOOK_SECONDS: Final = 1.0


class StrayBatch(NamedTuple):
    """A batch that a producer wrote despite the fence. `producer`, `epoch`: producer id and epoch, -1 if the
    batch has none. `transactional_id`: empty if unknown, and if the batch is not part of a transaction."""

    place: TopicPartition
    offset: int
    producer: int = -1
    epoch: int = -1
    transactional_id: str = ""

    @property
    def sentence(self) -> str:
        who = f"producer id {self.producer}" if self.producer >= 0 else "a producer without an id"
        named = f", transactional id {shown(self.transactional_id)}" if self.transactional_id else ""
        who += f" (epoch {self.epoch}{named})" if self.producer >= 0 else ""
        return f"{who} wrote to {self.place} at offset {self.offset}"


async def log_ends(cluster: Cluster, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the end offset of each partition. Raises Unreachable if an end offset is unknown."""
    found = await cluster.offsets(dict.fromkeys(places, LATEST))
    for place, answer in found.items():
        if answer.error:
            right = f"Describe on topic {place.topic}"
            error = cluster.error(
                answer.error, f"cannot read the end offset of {place} of {cluster.name}", right
            )
            raise error if not error.retriable else Unreachable(str(error))
    return {place: answer.offset for place, answer in found.items()}


async def stray_batch(cluster: Cluster, before: Ends, after: Ends) -> StrayBatch | None:
    """Return the first data batch written between two reads of the end offsets, or None. Ignores control
    batches.

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
                return StrayBatch(place, start)
            if not header.attributes & CONTROL:
                name = ""
                if header.attributes & TRANSACTIONAL:
                    name = await _transactional_id(cluster, header.producer_id)
                identity = header.producer_id, header.producer_epoch
                return StrayBatch(place, header.base_offset, *identity, name)
    return None


async def _transactional_id(cluster: Cluster, producer: int) -> str:
    """Return the transactional id of a producer id. Empty if no broker returns it: brokers before Kafka 3.0
    do not support the request, and others require the right to describe the id."""
    for broker in sorted(cluster.brokers):
        try:
            _, names = await cluster.ask(list_transactions(producer), broker)
        except HeadraceError as error:
            _log.debug("broker lists no transactions", cluster=cluster.name, broker=broker, reason=str(error))
            continue
        if names:
            return names[0]
    return ""


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
