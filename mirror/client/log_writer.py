"""Writes batches independently of the lanes, and chooses the version and timeout of Produce requests.

A write sends one batch to one partition, and waits for the acknowledgement.
"""

from __future__ import annotations

from typing import Final

from mirror.client.cluster import Cluster
from mirror.client.connection import Connection
from mirror.client.event_loop import Promise
from mirror.client.request import Request
from mirror.errors import CorruptData, Unreachable
from mirror.lane.memory import ReceiveBuffer
from mirror.model.topics import TopicPartition
from mirror.protocol import produce
from mirror.protocol.codes import TRANSIENT
from mirror.protocol.produce import ProducedPartition

_ROLE: Final = "write"
"""Role of a separate connection for writes, because a write that waits for replicas delays later requests."""
_BROKER_SHARE: Final = 0.8
"""Share of the client's timeout that the broker may use for replication."""
_REPLICATION_SECONDS: Final = 4.0
"""Maximum replication timeout in seconds.

Partitions share requests, so a slow partition delays the response for the others by up to this time, before
it gets separate requests. The timeout is shorter than the time after which a broker counts as silent.
"""
TRANSACTION_FEATURE: Final = "transaction.version"
IMPLICIT_LEVEL: Final = 2
"""Level of the feature `transaction.version` from which on Produce requests add partitions to transactions.

Every transaction then has its own producer epoch (part 2 of KIP-890).
"""


def replication_ms(timeout_seconds: float) -> int:
    """Return the replication timeout of a Produce request (ms), derived from the total timeout in ms."""
    return int(min(timeout_seconds * _BROKER_SHARE, _REPLICATION_SECONDS) * 1000)


def produce_version(connection: Connection, *, in_transaction: bool, has_ids: bool) -> int:
    """Return the common version of Produce. Requires KIP-890 only from brokers that support it. `has_ids`:
    the ids of all topics in the request are known."""
    version = connection.version_of(produce.API, produce.VERSIONS if has_ids else produce.NAMED_VERSIONS)
    if in_transaction and connection.features.features.get(TRANSACTION_FEATURE, 0) < IMPLICIT_LEVEL:
        version = min(version, produce.IMPLICIT_TRANSACTION_FROM - 1)
    return version


async def write_patiently(
    cluster: Cluster,
    place: TopicPartition,
    batch: bytearray,
    transactional_id: bytes | None = None,
    seconds: float | None = None,
) -> ProducedPartition:
    """Write a batch to a partition with retries, and wait until all replicas have it.

    `seconds`: maximum time for retries, by default the timeout of one request; 0 for a single attempt. Raises
    Unreachable on timeout, and the errors for error codes of the broker.
    """

    async def attempt() -> ProducedPartition:
        leader = cluster.leader(place)
        if leader is None:
            raise Unreachable(f"{place} of {cluster.name} has no leader")
        topic_id = cluster.topic_id(place.topic)
        connection = await cluster.connection(leader[0], _ROLE)
        clock, sent_ms = cluster.loop.clock, cluster.loop.clock.now_ms()
        answer = await _produce(cluster, connection, (place, topic_id), batch, transactional_id)
        if transactional_id is None:  # with a sequence, an earlier attempt may have set the append time
            cluster.clocks.acknowledged(leader[0], sent_ms, answer.append_ms, clock.now_ms())
        if answer.error:
            doing, right = f"cannot write to {place} of {cluster.name}", f"Write on topic {place.topic}"
            error = cluster.error(answer.error, doing, right, answer.message)
            raise Unreachable(error.message) if answer.error in TRANSIENT else error
        return answer

    return await cluster.patiently(attempt, seconds, topic=place.topic)


async def _produce(
    cluster: Cluster,
    connection: Connection,
    target: tuple[TopicPartition, bytes],
    batch: bytearray,
    transactional_id: bytes | None,
) -> ProducedPartition:
    """Send one Produce request. `target`: partition, and the id of its topic, empty if unknown."""
    place, topic_id = target
    in_transaction = transactional_id is not None
    version = produce_version(connection, in_transaction=in_transaction, has_ids=bool(topic_id))
    topic = topic_id if version >= produce.BY_ID_FROM else place.topic.encode()
    timeout = cluster.timeout_seconds
    wait_ms = replication_ms(timeout)
    batches = {topic: [(place.partition, batch)]}
    body, size = produce.encode_request(version, batches, wait_ms, transactional_id)
    promise = Promise[ProducedPartition]()

    def on_answer(frame: memoryview, _slab: ReceiveBuffer) -> None:
        response = produce.decode_response(version, frame)
        if len(response.partitions) != 1:
            raise CorruptData(f"{cluster.name}: Produce response for partitions that are not in the request")
        connection.throttle(response.throttle_ms)
        promise.resolve(response.partitions[0])

    flexible = produce.is_flexible(version)
    request = Request(produce.API, version, flexible, body, size, timeout, on_answer, promise.fail)
    request.replication_seconds = wait_ms / 1000
    connection.send(request)
    return await promise
