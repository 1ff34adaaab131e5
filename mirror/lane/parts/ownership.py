"""Ownership of a lane's destination partition: its producer identity."""

from __future__ import annotations

from enum import IntEnum
from math import inf
from typing import NamedTuple

from mirror.errors import ONE_OWNER_ADVICE, Fenced
from mirror.lane.parts.transaction import TransactionPhase, TransactionState
from mirror.lane.progress import Version
from mirror.model.datastreams.lanes import LaneKey
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.former_identity import FormerIdentity


class DisputedIdentity(NamedTuple):
    """Former producer id and epoch of an exactly-once lane.

    Another owner may have the id now. `stored`: version of the progress that the lane last loaded or
    committed. `refusal`: error that the destination returned for that identity.
    """

    former: FormerIdentity
    stored: Version | None
    refusal: str = ""
    seconds: float = 0.0
    """Seconds for which the rejected transaction was open."""

    def lost(self) -> Fenced:
        """Return the error for a lane whose producer id belongs to another owner now."""
        return Fenced(
            self.refusal or "another owner has taken its producer id",
            advice=ONE_OWNER_ADVICE,
        )


class Tenure(IntEnum):
    """History of a lane's producer ids in this engine."""

    NONE = 0
    FORGOTTEN = 1
    """The lane has had an id, and was copied before, but its progress is lost: the destination may contain
    copies of its next records."""
    HELD = 2
    """The lane has had an id, and its progress is known."""


class LaneOwnership:
    """Ownership of the destination partition.

    `claimed_at`: time (monotonic seconds) at which the prerequisites of the first batch were requested;
    infinity if the lane does not wait for them. `accepted`: identity under which the destination has last
    accepted a batch. `disputed`: former producer identity, which another owner may have acquired in the
    meantime; set until the lane has an identity again.
    """

    __slots__ = (
        "accepted",
        "claimed_at",
        "disputed",
        "identity",
        "sequence",
        "tenure",
        "transaction",
    )

    def __init__(self) -> None:
        self.identity: ProducerStamp | None = None
        self.accepted: ProducerStamp | None = None
        self.sequence = 0
        self.tenure = Tenure.NONE
        self.claimed_at = inf
        self.disputed: DisputedIdentity | None = None
        self.transaction: TransactionState | None = None

    @property
    def has_owned(self) -> bool:
        """Return whether the lane has had a producer id in this engine."""
        return self.tenure is not Tenure.NONE

    @property
    def is_identifying(self) -> bool:
        """Return whether the lane waits for a producer identity or another condition of its first batch."""
        return self.claimed_at < inf

    @property
    def is_established(self) -> bool:
        """Return whether the destination has accepted a batch with the current identity."""
        return self.accepted is not None and self.accepted is self.identity

    @property
    def is_held(self) -> bool:
        """Return whether new batches wait until a transaction begins or ends."""
        return self.transaction is not None and self.transaction.phase is not TransactionPhase.OPEN

    @property
    def is_in_transaction(self) -> bool:
        """Return whether a transaction of the lane is open."""
        return self.transaction is not None and self.transaction.is_open

    @property
    def has_failed_transaction(self) -> bool:
        """Return whether the open transaction can only be aborted."""
        return self.transaction is not None and self.transaction.phase is TransactionPhase.FAILED

    def transactional_id(self, key: LaneKey) -> bytes | None:
        """Return the transactional id of the lane's batches, None outside of transactions."""
        return identity_name(key).encode() if self.identity and self.identity.transactional else None


def identity_name(key: LaneKey) -> str:
    """Return the transactional id of a lane; the next owner uses it to fence the former owner."""
    return f"headrace-{key.group}-{key.partition.topic}-{key.partition.partition}"
