"""Items of a lane between source and destination: waiting, in flight, and rejected."""

from __future__ import annotations

from collections.abc import Iterator

from mirror.lane.ledger import SkippedOffsets
from mirror.lane.out_batch import Item, OutBatch, RejectedBatch


class LaneQueue:
    """Items in source order: `sent`, then `unsent`.

    `bytes_in_hand`: size of the batches. `trouble`: the first rejected batch. `is_held`: unsent batches wait
    for the end or the beginning of a transaction. `is_ready`: queued for sending. `is_writable`: connected to
    the destination; otherwise the lane is not fetched. `is_slow`: the destination partition is
    under-replicated, so batches are sent alone. `damaged_sends`: number of batches that the destination has
    rejected as corrupt, all of them below the source offset `damaged_up_to`; reset when the batches up to
    that offset are accepted. `send_tries`: number of consecutive transient produce errors.
    """

    __slots__ = (
        "bytes_in_hand",
        "damaged_sends",
        "damaged_up_to",
        "in_flight",
        "is_held",
        "is_ready",
        "is_slow",
        "is_writable",
        "send_tries",
        "sent",
        "trouble",
        "unsent",
    )

    def __init__(self) -> None:
        self.unsent: list[Item] = []  # lists: an empty deque takes 760 bytes, and most lanes are idle
        self.sent: list[Item] = []
        self.in_flight = self.bytes_in_hand = 0
        self.trouble: RejectedBatch | None = None
        self.is_held = self.is_ready = self.is_writable = self.is_slow = False
        self.damaged_sends = self.damaged_up_to = self.send_tries = 0

    @property
    def is_drained(self) -> bool:
        """True if there are no items."""
        return not self.unsent and not self.sent

    def batches(self) -> Iterator[OutBatch]:
        """Yield the batches that are not acknowledged, in order."""
        for item in (*self.sent, *self.unsent):
            if isinstance(item, OutBatch) and not item.acknowledged:
                yield item

    @property
    def first(self) -> OutBatch | None:
        """First batch that is not acknowledged, None if there is none."""
        return next(self.batches(), None)

    @property
    def is_settled(self) -> bool:
        """True if every batch that was sent is acknowledged."""
        if self.in_flight or self.trouble is not None:
            return False
        return not any(batch.is_stamped for batch in self.batches())

    @property
    def is_ambiguous(self) -> bool:
        """Return whether the destination may have stored batches that are not acknowledged."""
        return any(batch.maybe_stored for batch in self.batches())

    def unanswered(self, outgoing: OutBatch, *, maybe_stored: bool) -> None:
        """Record a rejection or a lost response. A later rejection does not clear `maybe_stored`."""
        outgoing.outstanding = False
        outgoing.maybe_stored = outgoing.maybe_stored or maybe_stored
        self.in_flight -= 1

    def requeue(self) -> None:
        """Move unacknowledged batches back to the queue, in order. Requires that no batch is outstanding."""
        assert self.in_flight == 0, "a batch could overtake one in flight"
        self.unsent, self.sent, self.trouble = self.sent + self.unsent, [], None

    def empty(self) -> list[Item]:
        """Remove and return all items, in order."""
        items, self.unsent, self.sent = self.sent + self.unsent, [], []
        self.bytes_in_hand, self.trouble = 0, None
        return items

    def shed(self) -> OutBatch | None:
        """Drop the first batch that was never sent, and all items after it; return that batch."""
        unsent = [item for item in self.unsent if isinstance(item, OutBatch) and not item.is_stamped]
        if not unsent:
            return None
        first = unsent[0]
        while True:
            item = self.unsent.pop()
            if isinstance(item, OutBatch):
                self.bytes_in_hand -= len(item.batch)
                item.free()
                if item is first:
                    return first

    def skip(self) -> None:
        """Move the first items to `sent` that need no request: skipped offsets, acknowledged batches."""
        while self.unsent and (isinstance(self.unsent[0], SkippedOffsets) or self.unsent[0].acknowledged):
            self.sent.append(self.unsent.pop(0))

    def recount(self) -> None:
        """Recompute the totals after a step that failed halfway."""
        batches = [item for item in [*self.sent, *self.unsent] if isinstance(item, OutBatch)]
        self.in_flight = sum(item.outstanding for item in batches)
        self.bytes_in_hand = sum(len(item.batch) for item in batches)
