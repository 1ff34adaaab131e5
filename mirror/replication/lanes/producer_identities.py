"""Changes the producer ids of lanes: begin, end, transactions, and checks for other owners.

No other module changes the identity of a lane. `ownership.producer_ids` acquires identities at the
destination, and `ownership.transactions` runs transactions.
"""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.lane.parts.ownership import DisputedIdentity
from mirror.lane.parts.transaction import TransactionState
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.former_identity import FormerIdentity
from mirror.replication.lanes.delivery import LaneDelivery


class ProducerIdentities:
    """Changes the producer ids under which `delivery` sends the batches of lanes."""

    def __init__(self, delivery: LaneDelivery) -> None:
        self._delivery = delivery

    def take(self, lane: Lane, identity: ProducerStamp) -> None:
        """Set a new producer id for transactions, after the transactions of the former id have ended. Until
        `begin`, another owner may have the id, because an operation before it may fail."""
        lane.ownership.transaction = None
        self.dispute(lane, identity)

    def begin(self, lane: Lane, identity: ProducerStamp, floor: int) -> None:
        """Start to write under this producer id. `floor`: as in `TransactionState`."""
        ownership = lane.ownership
        ownership.disputed = None
        if identity.transactional:
            ownership.transaction = TransactionState(floor)
            self._delivery.unsaved.expect(lane, None)
        self.renew(lane, identity)

    def renew(self, lane: Lane, identity: ProducerStamp) -> None:
        """Start to write under the next epoch of the producer id."""
        lane.ownership.identity = identity
        self._delivery.restamp(lane, (identity.producer_id, identity.epoch))

    def end(self, lane: Lane) -> ProducerStamp | None:
        """Stop writing under the current producer id, and return it. No transaction begins or commits until a
        check shows that no other owner has the id."""
        ownership = lane.ownership
        identity, ownership.identity = ownership.identity, None
        if identity is not None and identity.transactional and ownership.disputed is None:
            self.dispute(lane, identity)
        ownership.transaction = None
        return identity

    def dispute(self, lane: Lane, identity: ProducerStamp, refusal: str = "", seconds: float = 0.0) -> None:
        """Mark the producer id as disputed: the lane checks for another owner before it uses the id again."""
        transaction = lane.ownership.transaction
        is_open = transaction is not None and transaction.may_be_open
        former = FormerIdentity((identity.producer_id, identity.epoch), is_open)
        lane.ownership.disputed = DisputedIdentity(former, lane.progress.version, refusal, seconds)
