"""Decides whether a lane still owns its transactional id, as described by the coordinator.

InitProducerId does not compare epochs while a transaction is open, so a former owner that was frozen would
abort the transaction of the new owner and fence it. The distance between the epochs distinguishes the cases:

    event since we had (id, epoch)                           | the coordinator shows
    ---------------------------------------------------------|-------------------------------------------
    none, or our transaction ended by the old protocol       | the same epoch
    our transaction ended by the new protocol (KIP-890)      | the next epoch: CompleteCommit, CompleteAbort
    our transaction was aborted by a timeout or our own init | the next epoch: CompleteAbort
    we initialised the id, and the response was lost         | the next epoch: Empty
    another owner's init while no transaction was open       | the next epoch: Empty, Ongoing, or an end by
                                                             | the old protocol
    another owner's init while our transaction was open      | the epoch after the next

Empty under the next epoch is ambiguous, but the coordinator returns the id to us only if we had the previous
epoch (KIP-360). If a transaction of ours may have been open, one case remains ambiguous. Another owner that
uses the old protocol may have initialised the id while no transaction was open, and then aborted its own
first transaction. The response looks like an abort of our transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from mirror.protocol.control.transactions import TransactionDescription

_ENDING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence", "Dead"})
_ABORTS: Final = frozenset({"PrepareEpochFence", "PrepareAbort", "CompleteAbort"})
_COMMITS: Final = frozenset({"PrepareCommit", "CompleteCommit"})
_LAST_EPOCH: Final = 32_766
"""Last epoch of a producer id; the coordinator then assigns another producer id."""


def follows(later: tuple[int, int], former: tuple[int, int]) -> bool:
    """Return whether `later` is the (id, epoch) that the coordinator assigns directly after `former`.

    If the epochs follow directly, no other owner can have taken the transactional id in between.
    """
    if former[1] >= _LAST_EPOCH:
        return later[0] != former[0] and later[1] == 0
    return later == (former[0], former[1] + 1)


class Holder(Enum):
    """Who currently owns a lane's transactional id."""

    OURS = "no other owner has taken it"
    UNSETTLED = "a transaction is ending"
    TAKEN = "another owner has it"


@dataclass(slots=True)
class FormerIdentity:
    """Last known producer id and epoch of a lane. The coordinator may have assigned a successor.

    `is_open`: a transaction of the lane may be open under this identity.
    """

    producer: tuple[int, int]
    is_open: bool

    def judge(self, shown: TransactionDescription, *, bumps: bool, committed: bool) -> Holder:
        """Return who owns the lane's transactional id. Updates this identity to an assigned successor.

        `bumps`: transactions end by the new protocol, which increments the epoch (KIP-890). `committed`: the
        lane's transaction is known to be committed, so under the old protocol it cannot have been aborted.
        """
        here = shown.producer_id, shown.epoch
        if here != self.producer and not follows(here, self.producer):
            return Holder.TAKEN
        has_ended = here != self.producer and shown.state != "Empty"
        if has_ended and not self._may_end(shown.state, bumps, committed):
            return Holder.TAKEN
        if shown.state in _ENDING:
            return Holder.UNSETTLED
        if has_ended:
            self.producer, self.is_open = here, False
        return Holder.OURS

    def _may_end(self, state: str, bumps: bool, committed: bool) -> bool:
        """Return whether the lane's own transaction can have ended in this state under the next epoch."""
        if not self.is_open:
            return False
        return state in _ABORTS | _COMMITS if bumps else state in _ABORTS and not committed
