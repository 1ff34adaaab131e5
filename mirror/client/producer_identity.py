"""Producer ids: each lane takes its own, under a transactional id named after group and partition.

Whoever takes the id next gets a higher epoch, and from its first batch on the broker refuses the former
owner's batches on that partition, on no other. Taking alone does not stop a batch of the former owner
that is still under way; `fence` does, with an empty aborted transaction, which leaves one control record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.client.cluster import Cluster
from mirror.errors import Unreachable
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import NO_PRODUCER, ProducerStamp
from mirror.protocol.codes import error_of
from mirror.protocol.control.cluster import TRANSACTION
from mirror.protocol.control.transactions import (
    ProducerIdentity,
    add_partitions,
    describe_transaction,
    end_transaction,
    init_producer_id,
)

_ABORTED: Final = "CompleteAbort"
_NOT_ENDED: Final = frozenset({"Ongoing", "PrepareAbort", "PrepareEpochFence"})


async def take_identity(
    cluster: Cluster,
    name: str,
    timeout_seconds: float,
    *,
    transactional: bool = False,
    known: tuple[int, int] = (NO_PRODUCER, -1),
) -> ProducerStamp:
    """The producer id of this transactional id, with a new epoch; with the (id, epoch) that is `known` only
    if nobody has taken it since. Raises Fenced for that, Unreachable, NotAuthorized."""
    call = init_producer_id(name, int(timeout_seconds * 1000), known)
    answer = await cluster.ask_coordinator(TRANSACTION, name, call, lambda found: found.error)
    if answer.error:
        raise error_of(answer.error, f"taking the producer id of {name}")
    if answer.producer_id == NO_PRODUCER:
        raise Unreachable(f"the coordinator of {name} gave no producer id")
    return ProducerStamp(answer.producer_id, answer.epoch, transactional)


async def aborted_for_age(cluster: Cluster, name: str, former: ProducerStamp) -> tuple[int, int] | None:
    """The (id, epoch) that the coordinator shows after it has aborted the transaction of `former` for its
    age, for which it raises the epoch by one. None when somebody else has taken the transactional id: that
    raises the epoch again and leaves no aborted transaction. Raises Unreachable while it is being aborted.
    """

    async def attempt() -> tuple[int, int] | None:
        call = describe_transaction(name)
        found = await cluster.ask_coordinator(TRANSACTION, name, call, lambda answer: answer.error)
        if found.error:
            raise error_of(found.error, f"looking at the transaction of {name}")
        if found.producer_id != former.producer_id or not 0 <= found.epoch - former.epoch <= 1:
            return None
        if found.state in _NOT_ENDED:
            raise Unreachable(f"the transaction of {name} is being aborted at {cluster.name}")
        return (found.producer_id, found.epoch) if found.state == _ABORTED else None

    return await cluster.patiently(attempt)


async def fence(
    cluster: Cluster, name: str, stamp: ProducerStamp, target: TopicPartition, timeout_seconds: float
) -> ProducerStamp:
    """Make the broker refuse everything of former owners in that partition; the id to go on with.

    The id is taken once more in the end: the coordinator gives it only when every replica has the marker. All
    that former owners have stored then lies in front of the high watermark, where it can be read.
    """
    await add_to_transaction(cluster, name, stamp, [target])
    ended = await end(cluster, name, stamp, commit=False, newest=_OLD_PROTOCOL)
    if ended.error:
        raise error_of(ended.error, f"ending a transaction of {name}")
    return await take_identity(cluster, name, timeout_seconds)


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
