"""Producer ids: each lane takes its own, under a transactional id named after group and partition.

The next owner of the id gets a higher epoch, and from its first batch on the broker refuses the former
owner's batches on that partition, on no other. Taking alone does not stop a batch of the former owner
that is still under way; `fence` does, with an empty aborted transaction, which leaves one control record.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirror.client.cluster import Cluster
from mirror.client.produce_terms import IMPLICIT_LEVEL, TRANSACTION_FEATURE
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import NO_PRODUCER, ProducerStamp
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control.cluster import TRANSACTION
from mirror.protocol.control.former_identity import FormerIdentity, Holder, follows
from mirror.protocol.control.transactions import (
    DESCRIBE_TRANSACTIONS,
    ProducerIdentity,
    TransactionDescription,
    add_partitions,
    describe_transaction,
    end_transaction,
    init_producer_id,
)


async def take_identity(
    cluster: Cluster, name: str, timeout_seconds: float, *, transactional: bool = False
) -> ProducerStamp:
    """The producer id of this transactional id, with a new epoch; the present owner loses it.

    Raises Unreachable, NotAuthorized.
    """
    call = init_producer_id(name, int(timeout_seconds * 1000))
    answer = await cluster.ask_coordinator(TRANSACTION, name, call, _error)
    return _taken(answer, name, transactional)


async def retake_identity(
    cluster: Cluster, name: str, timeout_seconds: float, former: FormerIdentity, *, committed: bool
) -> ProducerStamp | None:
    """The same for an id of transactions that was `former`, unless another owner has taken it since: None.

    The coordinator is asked who has it before every try (brokers from 3.0 on), and then gives it only from
    the epoch that it has shown. An owner that takes it in between is left alone, unless it also begins a
    transaction within that one request. Raises Fenced for one that does not, Unreachable, NotAuthorized.
    """

    async def attempt() -> ProducerStamp | None:
        shown = await cluster.ask_coordinator_once(TRANSACTION, name, describe_transaction(name), _error)
        if shown.error and shown.error != Code.TRANSACTIONAL_ID_NOT_FOUND:
            raise error_of(shown.error, f"looking at the transaction of {name}")
        if not shown.error:
            bumps = cluster.feature(TRANSACTION_FEATURE) >= IMPLICIT_LEVEL
            holder = former.judge(shown, bumps=bumps, committed=committed)
            if holder is Holder.TAKEN:
                return None
            if holder is Holder.UNSETTLED:
                raise Unreachable(f"the transaction of {name} is being ended at {cluster.name}")
        call = init_producer_id(name, int(timeout_seconds * 1000), former.producer)
        answer = await cluster.ask_coordinator_once(TRANSACTION, name, call, _error)
        return _taken(answer, name, transactional=True)

    return await cluster.patiently(attempt)


async def has_identity(cluster: Cluster, name: str) -> bool:
    """Return whether an owner has taken the transactional id; False where the cluster does not tell (before
    Kafka 3.0, or without the right Describe). Raises Unreachable."""
    if cluster.newest(DESCRIBE_TRANSACTIONS) < 0:
        return False
    shown = await cluster.ask_coordinator(TRANSACTION, name, describe_transaction(name), _error)
    error = error_of(shown.error, f"looking at the transaction of {name}") if shown.error else None
    if error is not None and error.retriable:
        raise error
    return error is None


def _error(answer: ProducerIdentity | TransactionDescription) -> int:
    return answer.error


def _taken(answer: ProducerIdentity, name: str, transactional: bool) -> ProducerStamp:
    if answer.error:
        raise error_of(answer.error, f"taking the producer id of {name}")
    if answer.producer_id == NO_PRODUCER:
        raise Unreachable(f"the coordinator of {name} gave no producer id")
    return ProducerStamp(answer.producer_id, answer.epoch, transactional)


async def fence(
    cluster: Cluster, name: str, stamp: ProducerStamp, target: TopicPartition, timeout_seconds: float
) -> ProducerStamp:
    """Make the broker refuse everything of former owners in that partition; the id to go on with.

    The id is taken once more in the end: the coordinator gives it only when every replica has the marker. All
    that former owners have stored then lies in front of the high watermark, where it can be read. Where it is
    not the one that follows, somebody else has taken it behind the marker, which does not stop that one:
    another marker does.
    """
    while True:
        await abort_empty(cluster, name, stamp, target)
        former, stamp = stamp, await take_identity(cluster, name, timeout_seconds)
        if follows((stamp.producer_id, stamp.epoch), (former.producer_id, former.epoch)):
            return stamp


async def abort_empty(cluster: Cluster, name: str, stamp: ProducerStamp, target: TopicPartition) -> None:
    """Abort a transaction that only names the partition: all that is open of the producer id there ends with
    its marker. Raises Fenced, Unreachable."""
    await add_to_transaction(cluster, name, stamp, [target])
    ended = await end(cluster, name, stamp, commit=False, newest=_OLD_PROTOCOL)
    if ended.error:
        raise error_of(ended.error, f"ending a transaction of {name}")


async def add_to_transaction(
    cluster: Cluster, name: str, stamp: ProducerStamp, places: list[TopicPartition]
) -> None:
    """Add partitions to the transaction, which begins with it (the protocol before KIP-890)."""
    call = add_partitions(name, (stamp.producer_id, stamp.epoch), places)
    added = await cluster.ask_coordinator(TRANSACTION, name, call, _worst)
    for place, code in added.items():
        if code:
            raise error_of(code, f"adding {place} to a transaction of {name}")


def _worst(codes: Mapping[TopicPartition, int]) -> int:
    return next((code for code in codes.values() if code), 0)


_OLD_PROTOCOL = 4
"""EndTxn up to this version keeps the epoch; partitions added one by one belong to that protocol."""


async def end(
    cluster: Cluster, name: str, stamp: ProducerStamp, *, commit: bool, newest: int
) -> ProducerIdentity:
    """End the open transaction; the coordinator's refusal is in the answer. Raises Unreachable."""
    call = end_transaction(name, (stamp.producer_id, stamp.epoch), commit=commit, newest=newest)
    return await cluster.ask_coordinator(TRANSACTION, name, call, lambda found: found.error)
