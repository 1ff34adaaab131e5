"""Source topics of an exact shape, written as raw batches: fast, and identical in every run.

Every batch contains the records of one of a few templates, with unique timestamps so that a comparison can
tell batches apart.
"""

from __future__ import annotations

import json
import random
import string
from base64 import b64encode
from dataclasses import dataclass

from bench.mirror.rig.clusters import Topics
from mirror.adapters.system_clock import SystemClock
from mirror.client.access import ClusterAccess, endpoints
from mirror.client.cluster import CONTROL, Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.request import Request
from mirror.lane.memory import ReceiveBuffer
from mirror.model.identifiers import ClusterRef
from mirror.protocol import produce
from mirror.protocol.batches.batch import seal
from mirror.protocol.batches.compression import Codec
from mirror.protocol.batches.encoder import write_batch
from mirror.protocol.batches.records import Record
from mirror.replication.context import EngineContext, EngineIdentity
from mirror.replication.options import CopyingOptions
from stack.kafka import KafkaCluster

PARTITIONS = 16
START_MS = 1_795_000_000_000
_TEMPLATES = 24
_IN_FLIGHT = 4
_VERSION = 12
_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Shape:
    """Shape of a source topic: codec, 1 KB records per batch, total records, partitions."""

    name: str
    codec: Codec
    batch_records: int
    records: int
    partitions: int = PARTITIONS

    @property
    def batches_each(self) -> int:
        """Batches in each partition."""
        return self.records // self.batch_records // self.partitions


@dataclass(frozen=True)
class SourceTopic:
    """Source topic that was written. Sizes in bytes; the payload is keys and values before compression."""

    name: str
    shape: Shape
    records: int
    payload_bytes: int
    wire_bytes: int

    def __str__(self) -> str:
        batch = self.wire_bytes / self.records * self.shape.batch_records
        return (
            f"{self.shape.name}: {self.records:,} records, {self.payload_bytes / 1e9:.2f} GB of payload,"
            f" {self.wire_bytes / 1e9:.2f} GB in batches of {self.shape.batch_records} records"
            f" and {batch:,.0f} bytes, {self.shape.partitions} partitions"
        )


def write_topic(cluster: KafkaCluster, shape: Shape) -> SourceTopic:
    """Create the topic `bench-<shape>` and fill it."""
    name = f"bench-{shape.name}"
    Topics(cluster).create(name, shape.partitions, retention_ms="-1")
    templates, payload = _templates(shape)
    access = ClusterAccess(endpoints(cluster.address))
    bench = EngineContext(lambda _: access, CopyingOptions(), EngineIdentity("bench"), SystemClock())
    try:
        rounds = range(shape.batches_each)
        wire = bench.run(_fill(bench.cluster(ClusterRef(cluster.name)), name, shape, templates, rounds))
    finally:
        bench.close()
    batches = shape.batches_each * shape.partitions
    records = batches * shape.batch_records
    return SourceTopic(name, shape, records, int(payload * batches / _TEMPLATES), wire)


def _templates(shape: Shape) -> tuple[list[bytearray], int]:
    """Return encoded batches, and their total payload in bytes."""
    numbers = random.Random(shape.batch_records)
    words = ["".join(numbers.choices(string.ascii_lowercase, k=numbers.randint(4, 11))) for _ in range(3_000)]
    phrases = [" ".join(numbers.choices(words[:150], k=2)) for _ in range(100)]
    batches, payload = [], 0
    for _ in range(_TEMPLATES):
        records = [_record(numbers, words, phrases, place) for place in range(shape.batch_records)]
        payload += sum(len(record.key or b"") + len(record.value or b"") for record in records)
        batches.append(write_batch(records, shape.codec))
    return batches, payload


def _record(numbers: random.Random, words: list[str], phrases: list[str], place: int) -> Record:
    """Return a record of about 1 KB like a service log entry.

    In large batches LZ4 makes it 2.7 and Zstandard 4.3 times smaller.
    """
    document = {
        "id": numbers.getrandbits(64),
        "service": numbers.choice(words[:40]),
        "host": f"{numbers.choice(words[:40])}-{numbers.randrange(200)}.example.com",
        "level": numbers.choice(["INFO", "INFO", "INFO", "WARN", "ERROR"]),
        "token": b64encode(numbers.randbytes(64)).decode(),
        "duration_ms": round(numbers.expovariate(0.01), 2),
        "attributes": {word: numbers.randrange(100) for word in words[:4]},
        "message": "",
    }
    room = 1_000 - len(json.dumps(document))
    document["message"] = " ".join(numbers.choices(phrases, k=room // 10))[:room]
    key = b"key-%09d" % numbers.randrange(10**9)
    headers = ((b"origin", b"bench"),)
    return Record(place, START_MS + place, key, json.dumps(document).encode(), headers)


class GrowingTopic:
    """Topic `bench-<shape>`, empty at first, to which batches are added. A context manager."""

    def __init__(self, cluster: KafkaCluster, shape: Shape) -> None:
        self.name, self.shape = f"bench-{shape.name}", shape
        Topics(cluster).create(self.name, shape.partitions, retention_ms="-1")
        self._templates, _ = _templates(shape)
        access = ClusterAccess(endpoints(cluster.address))
        self._bench = EngineContext(
            lambda _: access, CopyingOptions(), EngineIdentity("bench"), SystemClock()
        )
        self._cluster = ClusterRef(cluster.name)
        self._rounds = 0

    def __enter__(self) -> GrowingTopic:
        return self

    def __exit__(self, *_: object) -> None:
        self._bench.close()

    def add(self, batches_each: int) -> int:
        """Write `batches_each` batches to each partition. Returns their total bytes."""
        rounds = range(self._rounds, self._rounds + batches_each)
        self._rounds += batches_each
        cluster = self._bench.cluster(self._cluster)
        return self._bench.run(_fill(cluster, self.name, self.shape, self._templates, rounds))


async def _fill(cluster: Cluster, topic: str, shape: Shape, templates: list[bytearray], rounds: range) -> int:
    """Write the batches, one of each partition per request. Return their total bytes."""
    await cluster.refresh([topic])
    connection = await cluster.connection(next(iter(cluster.brokers)), CONTROL)
    under_way: list[Promise[None]] = []
    written = 0
    for round_number in rounds:
        batches = []
        for number in range(shape.partitions):
            batch = bytearray(templates[(round_number * 7 + number) % _TEMPLATES])
            _set_times(batch, START_MS + round_number * shape.batch_records, shape.batch_records)
            seal(memoryview(batch))
            batches.append((number, batch))
            written += len(batch)
        under_way.append(_send(connection, topic, batches))
        if len(under_way) >= _IN_FLIGHT:
            await under_way.pop(0)
    for promise in under_way:
        await promise
    return written


def _set_times(batch: bytearray, start_ms: int, count: int) -> None:
    batch[27:35] = start_ms.to_bytes(8, "big")
    batch[35:43] = (start_ms + count - 1).to_bytes(8, "big")


def _send(connection: Connection, topic: str, batches: list[tuple[int, bytearray]]) -> Promise[None]:
    body, size = produce.encode_request(_VERSION, {topic.encode(): batches}, 30_000)
    promise = Promise[None]()

    def on_answer(frame: memoryview, _slab: ReceiveBuffer) -> None:
        answers = produce.decode_response(_VERSION, frame).partitions
        assert len(answers) == len(batches)
        errors = {answer.error for answer in answers}
        assert errors == {0}, errors
        promise.resolve(None)

    connection.send(
        Request(produce.API, _VERSION, True, body, size, _TIMEOUT_SECONDS, on_answer, promise.fail)
    )
    return promise
