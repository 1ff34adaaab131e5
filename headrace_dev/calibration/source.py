"""Topics for measurements, to which whole batches of a known shape are written."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Final

from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.client.cluster import Cluster
from mirror.client.log_writer import write_patiently
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription, TopicPartition
from mirror.protocol.batches.batch import seal
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.replication.context import EngineContext

_WORDS: Final = ("order", "payment", "created", "customer", "amount", "currency", "pending", "shipment")
_RECORD_BYTES: Final = 1_000
_PARTITIONS: Final = 32
_START_MS: Final = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class BatchShape:
    """Shape of the batches to write: `records` records of about 1 kB, each half random and half
    compressible."""

    name: str
    codec: Codec
    records: int


class GrowingTopic:
    """A topic that is empty at first, and to which a measurement adds batches. `name`: name of the topic."""

    def __init__(self, bench: EngineContext, cluster: ClusterRef, shape: BatchShape) -> None:
        self.shape = shape
        self._bench = bench
        self._cluster = cluster
        self.name = f"calibrate-{shape.name}"
        self._places = [TopicPartition(self.name, number) for number in range(_PARTITIONS)]
        self._batch = write_batch(_records(shape.records), shape.codec)
        seal(memoryview(self._batch))

    def create(self, admin: KafkaAdmin) -> None:
        """Create the topic. Raises Unreachable, Refused."""
        kept = {"retention.ms": "-1"}  # the timestamps of the records are old
        admin.create(TopicDescription(self.name, len(self._places), settings=kept))

    def add(self, seconds: float) -> int:
        """Write batches to every partition for `seconds`, at least one per partition. Return the bytes
        written. Raises Unreachable."""
        return self._bench.run(self._write(self._bench.cluster(self._cluster), time.monotonic() + seconds))

    async def _write(self, cluster: Cluster, end: float) -> int:
        await cluster.refresh([self.name])
        written = await self._bench.loop.together([self._fill(cluster, place, end) for place in self._places])
        return sum(written)

    async def _fill(self, cluster: Cluster, place: TopicPartition, end: float) -> int:
        written = 0
        while not written or time.monotonic() < end:
            await write_patiently(cluster, place, bytearray(self._batch))
            written += len(self._batch)
        return written


def _records(count: int) -> list[Record]:
    numbers = random.Random(count)  # noqa: S311 - records must be reproducible
    return [
        Record(
            place,
            _START_MS + place,
            b"key-%09d" % numbers.randrange(10**9),
            " ".join(numbers.choices(_WORDS, k=60)).encode() + numbers.randbytes(_RECORD_BYTES // 2),
            (),
        )
        for place in range(count)
    ]
