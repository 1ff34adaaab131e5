"""Acquires producer ids, and fences their former owners.

Each lane has its own producer id, under a transactional id that contains group and partition. The next owner
gets a higher producer epoch. When a broker has received the first batch of the next owner, it rejects batches
of the former owner. `fence` makes it reject them earlier: it aborts an empty transaction, which writes one
control record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirror.client.cluster import Cluster
from mirror.client.log_writer import IMPLICIT_LEVEL, TRANSACTION_FEATURE, write_patiently
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import NO_PRODUCER, BatchHeader, ProducerStamp, next_sequence, stamp
from mirror.protocol.codes import Code
from mirror.protocol.control.cluster import TRANSACTION
from mirror.protocol.control.former_identity import FormerIdentity, Holder, follows
from mirror.protocol.control.transactions import (
    DESCRIBE_TRANSACTIONS,
    NEW_EPOCH_FROM,
    ProducerIdentity,
    TransactionDescription,
    add_partitions,
    describe_transaction,
    end_transaction,
    init_producer_id,
)
from mirror.protocol.produce import ProducedPartition


@dataclass(slots=True)
class SequencedProducer:
    """Producer id and epoch, and the sequence number of its next record in one partition."""

    identity: ProducerStamp
    sequence: int = 0

    async def write(
        self,
        cluster: Cluster,
        place: TopicPartition,
        batch: bytearray,
        transactional_id: bytes | None = None,
    ) -> ProducedPartition:
        """Write a batch with the next sequence number, as `write_patiently` does. An error leaves the number
        unchanged."""
        header = BatchHeader(batch)
        stamp(memoryview(batch), header.attributes, self.identity, self.sequence)
        answer = await write_patiently(cluster, place, batch, transactional_id)
        self.sequence = next_sequence(self.sequence, header.record_count)
        return answer


async def take_identity(
    cluster: Cluster, name: str, timeout_seconds: float, *, transactional: bool = False
) -> ProducerStamp:
    """Acquire the producer id of a transactional id with a new epoch, which fences the current owner. Raises
    Unreachable, NotAuthorized."""
    call = init_producer_id(name, int(timeout_seconds * 1000))
    answer = await cluster.coordinators.ask(TRANSACTION, name, call, _error)
    return _taken(cluster, answer, name, transactional)


async def retake_identity(
    cluster: Cluster, name: str, timeout_seconds: float, former: FormerIdentity, *, committed: bool
) -> ProducerStamp | None:
    """Reacquire this lane's transactional producer id. Return None if another owner has the id.

    `former`: producer id and epoch that the lane had. Every attempt first reads the current epoch (Kafka 3.0
    or later), and acquires the id only if the epoch is unchanged. An owner that acquires the id after this
    read keeps the id, unless it also starts a transaction. Raises Unreachable, NotAuthorized; Fenced if
    another owner acquired the id after the epoch was read.
    """

    async def attempt() -> ProducerStamp | None:
        shown = await cluster.coordinators.ask_once(TRANSACTION, name, describe_transaction(name), _error)
        if shown.error and shown.error != Code.TRANSACTIONAL_ID_NOT_FOUND:
            raise cluster.error(shown.error, f"cannot describe the transaction of {name}", _right(name))
        if not shown.error:
            holder = former.judge(shown, bumps=adds_partitions(cluster), committed=committed)
            if holder is Holder.TAKEN:
                return None
            if holder is Holder.UNSETTLED:
                raise Unreachable(f"a transaction of {name} is still completing at {cluster.name}")
        call = init_producer_id(name, int(timeout_seconds * 1000), former.producer)
        answer = await cluster.coordinators.ask_once(TRANSACTION, name, call, _error)
        return _taken(cluster, answer, name, transactional=True)

    return await cluster.patiently(attempt)


async def reacquire_identity(
    cluster: Cluster, name: str, timeout_seconds: float, former: ProducerStamp
) -> ProducerStamp:
    """Reacquire this lane's producer id with a new epoch. The id must have no open transaction.

    `former`: producer id and epoch that the lane had. Raises Unreachable, NotAuthorized; Fenced if another
    owner has acquired the id in the meantime.
    """
    call = init_producer_id(name, int(timeout_seconds * 1000), (former.producer_id, former.epoch))
    answer = await cluster.coordinators.ask(TRANSACTION, name, call, _error)
    return _taken(cluster, answer, name, former.transactional)


async def has_identity(cluster: Cluster, name: str) -> bool:
    """Return whether a transactional id has an owner; False if the cluster does not report owners. Requires
    Kafka 3.0 and the permission Describe on the transactional id. Raises Unreachable."""
    if cluster.newest(DESCRIBE_TRANSACTIONS) < 0:
        return False
    shown = await cluster.coordinators.ask(TRANSACTION, name, describe_transaction(name), _error)
    if not shown.error:
        return True
    error = cluster.error(shown.error, f"cannot describe the transaction of {name}", _right(name))
    if error.retriable:
        raise error
    return False


def _error(answer: ProducerIdentity | TransactionDescription) -> int:
    return answer.error


def _right(name: str) -> str:
    """Return the permissions required to acquire the producer id, as a text for error messages."""
    return f"Describe and Write on transactional id {name}" if name else "IdempotentWrite on the cluster"


def _taken(cluster: Cluster, answer: ProducerIdentity, name: str, transactional: bool) -> ProducerStamp:
    if answer.error:
        raise cluster.error(answer.error, f"cannot acquire the producer id of {name}", _right(name))
    if answer.producer_id == NO_PRODUCER:
        raise Unreachable(f"the coordinator of {name} returned no producer id")
    return ProducerStamp(answer.producer_id, answer.epoch, transactional)


async def fence(
    cluster: Cluster, name: str, stamp: ProducerStamp, target: TopicPartition, timeout_seconds: float
) -> ProducerStamp:
    """Make the broker reject batches of former owners in a partition. Return the new producer id and epoch.

    Writes a transaction marker, and then reacquires the id. The coordinator returns the new epoch when every
    replica has the marker. All records of former owners are then readable. If the new epoch does not directly
    follow the old epoch, another owner has acquired the id after the marker was written, and another marker
    is written to fence that owner.
    """
    while True:
        await abort_empty(cluster, name, stamp, target)
        former, stamp = stamp, await take_identity(cluster, name, timeout_seconds)
        if follows((stamp.producer_id, stamp.epoch), (former.producer_id, former.epoch)):
            return stamp


async def abort_empty(cluster: Cluster, name: str, stamp: ProducerStamp, target: TopicPartition) -> None:
    """Abort a transaction that contains only one partition. An abort ends all open transactions of the
    producer id in the partition. Raises Fenced, Unreachable."""
    await add_to_transaction(cluster, name, stamp, [target])
    ended = await end(cluster, name, stamp, commit=False, newest=_OLD_PROTOCOL)
    if ended.error:
        raise cluster.error(ended.error, f"cannot end a transaction of {name}", _right(name))


async def add_to_transaction(
    cluster: Cluster, name: str, stamp: ProducerStamp, places: list[TopicPartition]
) -> None:
    """Add partitions to the transaction, which starts if necessary (protocol before KIP-890)."""
    call = add_partitions(name, (stamp.producer_id, stamp.epoch), places)
    added = await cluster.coordinators.ask(TRANSACTION, name, call, _worst)
    for place, code in added.items():
        if code:
            right = f"{_right(name)}, and Write on topic {place.topic}"
            raise cluster.error(code, f"cannot add {place} to a transaction of {name}", right)


def _worst(codes: Mapping[TopicPartition, int]) -> int:
    return next((code for code in codes.values() if code), 0)


_OLD_PROTOCOL = NEW_EPOCH_FROM - 1
"""Last EndTxn version that keeps the producer epoch, for transactions with explicitly added partitions."""


def adds_partitions(cluster: Cluster) -> bool:
    """Return whether produce requests add partitions to transactions (part 2 of KIP-890)."""
    return cluster.connections.feature(TRANSACTION_FEATURE) >= IMPLICIT_LEVEL


async def end(
    cluster: Cluster, name: str, stamp: ProducerStamp, *, commit: bool, newest: int | None = None
) -> ProducerIdentity:
    """Commit or abort the transaction. The result has an error code if it is rejected. Raises Unreachable.

    `newest`: highest version of EndTxn, by default that of the cluster's transaction protocol.
    """
    if newest is None:
        newest = NEW_EPOCH_FROM if adds_partitions(cluster) else _OLD_PROTOCOL
    call = end_transaction(name, (stamp.producer_id, stamp.epoch), commit=commit, newest=newest)
    return await cluster.coordinators.ask(TRANSACTION, name, call, lambda found: found.error)
