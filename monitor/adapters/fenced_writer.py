"""Writes to a topic that must have only one writer at a time.

A writer that acquires the transactional id gets a higher producer epoch than the previous writer. A
transaction marker with this epoch makes the broker reject later batches of the previous writer, which may
resume after a freeze (`mirror.client.producer_identity.fence`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.producer_identity import SequencedProducer, fence, reacquire_identity, take_identity
from mirror.errors import Fenced, Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.partitioner import sized_batches
from mirror.protocol.batches.records import Record

_TRANSACTION_SECONDS: Final = 30.0


class FencedWriter:
    """Writer of one partition that fences former writers. Used on the thread of the event loop.

    `identity`: transactional id of the writer.
    """

    def __init__(self, place: TopicPartition, identity: str) -> None:
        self._place = place
        self._name = identity
        self._former: ProducerStamp | None = None
        """Latest producer id and epoch, or None before the first call of `take`."""
        self._producer: SequencedProducer | None = None
        """None if it is unknown whether the latest batch was written."""
        self._is_busy = False

    async def take(self, cluster: Cluster) -> None:
        """Fence the topic's former writer, so that only this one can write. Raises Unreachable,
        NotAuthorized, Refused. Further calls do nothing, because they could fence a successor."""
        if self._former is not None:
            return
        try:
            taken = await take_identity(cluster, self._name, _TRANSACTION_SECONDS)
            self._former = await fence(cluster, self._name, taken, self._place, _TRANSACTION_SECONDS)
        except Fenced as error:
            raise Unreachable(f"{error.message}: concurrent use of the same transactional id") from error
        self._producer = SequencedProducer(self._former)

    def reclaim(self) -> None:
        """Make the next write fence all other writers, even if another writer has fenced this one."""
        self._former = self._producer = None

    async def write(self, cluster: Cluster, values: Mapping[str, bytes | None]) -> None:
        """Write a record for each key with its value, and wait until all replicas have the records.

        Raises Fenced if another writer has taken over, Unreachable, NotAuthorized, Refused. After an error,
        some of the values may have been written.
        """
        if self._is_busy:
            raise Unreachable(f"an earlier write to {self._place} has not ended yet")
        self._is_busy = True
        try:
            await self._write(cluster, values)
        finally:
            self._is_busy = False

    async def _write(self, cluster: Cluster, values: Mapping[str, bytes | None]) -> None:
        await self.take(cluster)
        assert self._former is not None
        producer, self._producer = self._producer, None
        if producer is None:
            # With a new epoch, the broker rejects a batch of unknown fate that is still under way.
            self._former = await reacquire_identity(cluster, self._name, _TRANSACTION_SECONDS, self._former)
            producer = SequencedProducer(self._former)
        now_ms = cluster.loop.clock.now_ms()
        records = (Record(0, now_ms, key.encode(), value) for key, value in values.items())
        for batch in sized_batches(records):
            await producer.write(cluster, self._place, write_batch(batch, Codec.LZ4))
        self._producer = producer
