"""Ownership of a lane's destination partition: producer id, epoch and transactional id."""

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
    """Former producer id and epoch of an exactly-once lane that another owner may have acquired.

    `stored`: version of the progress that the lane last loaded or committed. `refusal`: error of the
    destination for that identity.
    """

    former: FormerIdentity
    stored: Version | None
    refusal: str = ""
    seconds: float = 0.0
    """Duration of the rejected transaction in seconds."""

    def lost(self) -> Fenced:
        """Return the error for a lane whose producer id another owner has taken over."""
        return Fenced(
            self.refusal or "another owner has taken its producer id",
            advice=ONE_OWNER_ADVICE,
        )


class Tenure(IntEnum):
    """Whether a lane has had a producer id in this engine, and whether its progress is known."""

    NONE = 0
    FORGOTTEN = 1
    """The lane has had a producer id, but its progress is lost: it may have written its next records."""
    HELD = 2
    """The lane has had a producer id, and its progress is known."""


class LaneOwnership:
    """Ownership of a lane's destination partition by its producer id.

    `claimed_at`: time at which the prerequisites of the first batch were requested (monotonic seconds);
    infinity if the lane does not wait. `accepted`: identity of the last batch that the destination accepted;
    None if it may have forgotten the identity. `accepted_at`: time of that response (monotonic seconds).
    `disputed`: former producer identity that another owner may have taken over; None once the lane has a new
    identity.
    """

    __slots__ = (
        "accepted",
        "accepted_at",
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
        self.accepted_at = 0.0
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
        """Return whether the lane waits for a producer id or another prerequisite of its first batch."""
        return self.claimed_at < inf

    @property
    def is_established(self) -> bool:
        """Return whether the destination has accepted a batch with the current producer id and epoch."""
        return self.accepted is not None and self.accepted is self.identity

    @property
    def is_held(self) -> bool:
        """Return whether the lane sends no new batch until a transaction begins or ends."""
        return self.transaction is not None and self.transaction.phase is not TransactionPhase.OPEN

    @property
    def is_in_transaction(self) -> bool:
        """Return whether a transaction of the lane is open."""
        return self.transaction is not None and self.transaction.is_open

    @property
    def has_failed_transaction(self) -> bool:
        """Return whether the open transaction must be aborted."""
        return self.transaction is not None and self.transaction.phase is TransactionPhase.FAILED

    def transactional_id(self, key: LaneKey) -> bytes | None:
        """Return the transactional id for the lane's batches, or None without transactions."""
        return identity_name(key).encode() if self.identity and self.identity.transactional else None


def identity_name(key: LaneKey) -> str:
    """Return the transactional id of a lane. The next owner uses the same id, which fences this owner."""
    return f"headrace-{key.group}-{key.partition.topic}-{key.partition.partition}"
