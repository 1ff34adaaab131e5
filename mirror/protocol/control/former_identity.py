"""Whether a lane's transactional id is still its own, by what the coordinator shows of it.

InitProducerId does not compare epochs while a transaction is open, so a former owner that was frozen would
abort the transaction of the new one and fence it. What distinguishes them is how far the epoch has come:

    what has happened to (id, epoch) of ours        | the coordinator shows
    ------------------------------------------------|--------------------------------------------------
    nothing, or it ended by the old protocol        | the same
    it ended by the new protocol (KIP-890)          | the next epoch, CompleteCommit or CompleteAbort
    it was aborted for its age, or as we took it    | the next epoch, CompleteAbort
    we took it, and the answer was lost             | the next epoch, Empty
    another owner took it when none was open        | the next epoch: Empty, Ongoing, or (old protocol) ended
    another owner took it when one was open         | the epoch after the next

Empty under the next epoch may be either; then the coordinator knows, as it gives the id to us only if we had
the epoch before (KIP-360). What an owner of the old protocol shows that took the id from one without a
transaction and has aborted its own first one cannot be told from an abort of ours, if one may have been open.
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
"""After it the coordinator gives another producer id."""


def follows(later: tuple[int, int], former: tuple[int, int]) -> bool:
    """Whether the (id, epoch) is the one that the coordinator gives next after `former`, so that nobody can
    have taken the transactional id in between."""
    if former[1] >= _LAST_EPOCH:
        return later[0] != former[0] and later[1] == 0
    return later == (former[0], former[1] + 1)


class Holder(Enum):
    """Who has the transactional id."""

    OURS = "nobody else has taken it"
    UNSETTLED = "a transaction is ending"
    TAKEN = "another owner has it"


@dataclass(slots=True)
class FormerIdentity:
    """The (id, epoch) that we had, or that the coordinator has made of it since. `is_open`: a transaction of
    ours may be open under it."""

    producer: tuple[int, int]
    is_open: bool

    def judge(self, shown: TransactionDescription, *, bumps: bool, committed: bool) -> Holder:
        """Who has the transactional id that the coordinator shows so, and what we hold of it from now on.

        `bumps`: transactions end by the new protocol. `committed`: ours is known to be, so that by the old
        protocol nothing can have been aborted.
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
        """Whether a transaction of ours may end or have ended so, under the next epoch."""
        if not self.is_open:
            return False
        return state in _ABORTS | _COMMITS if bumps else state in _ABORTS and not committed
