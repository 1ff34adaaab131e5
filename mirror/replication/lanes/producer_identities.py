"""Beginning and end of the producer identities of lanes, with their transactions and disputes.

No other module changes the identity of a lane. The steps that acquire an identity at the destination are in
`ownership.producer_ids`, those of a transaction in `ownership.transactions`.
"""

from __future__ import annotations

from mirror.lane.lane import Lane
from mirror.lane.parts.ownership import DisputedIdentity
from mirror.lane.parts.transaction import TransactionState
from mirror.protocol.batches.batch import ProducerStamp
from mirror.protocol.control.former_identity import FormerIdentity
from mirror.replication.lanes.delivery import LaneDelivery


class ProducerIdentities:
    """Changes of the producer identities of lanes. A new identity applies to the batches in `delivery`."""

    def __init__(self, delivery: LaneDelivery) -> None:
        self._delivery = delivery

    def take(self, lane: Lane, identity: ProducerStamp) -> None:
        """Record the producer identity for transactions, after those of the former identity have ended.

        The identity stays disputed until `begin`, because the next steps may fail.
        """
        lane.ownership.transaction = None
        self.dispute(lane, identity)

    def begin(self, lane: Lane, identity: ProducerStamp, floor: int) -> None:
        """Write under this identity from now on. `floor`: as in `TransactionState`."""
        ownership = lane.ownership
        ownership.disputed = None
        if identity.transactional:
            ownership.transaction = TransactionState(floor)
            self._delivery.unsaved.expect(lane, None)
        self.renew(lane, identity)

    def renew(self, lane: Lane, identity: ProducerStamp) -> None:
        """Write under the next epoch of the identity."""
        lane.ownership.identity = identity
        self._delivery.restamp(lane, (identity.producer_id, identity.epoch))

    def end(self, lane: Lane) -> ProducerStamp | None:
        """Stop writing under the current producer identity, and return it.

        A transactional identity is acquired again only after a check that no other owner has it. Until this
        check, the lane begins no transaction, and does not commit an open one.
        """
        ownership = lane.ownership
        identity, ownership.identity = ownership.identity, None
        if identity is not None and identity.transactional and ownership.disputed is None:
            self.dispute(lane, identity)
        ownership.transaction = None
        return identity

    def dispute(self, lane: Lane, identity: ProducerStamp, refusal: str = "", seconds: float = 0.0) -> None:
        """Require a check for another owner before the identity is taken again."""
        transaction = lane.ownership.transaction
        is_open = transaction is not None and transaction.may_be_open
        former = FormerIdentity((identity.producer_id, identity.epoch), is_open)
        lane.ownership.disputed = DisputedIdentity(former, lane.progress.version, refusal, seconds)
