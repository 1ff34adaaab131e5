"""Batches between source and destination, in source order: to send, sent and rejected."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mirror.lane.ledger import SkippedOffsets
from mirror.lane.memory import ByteBudget, ReceiveBuffer
from mirror.model.movement.append_times import UNKNOWN_SPAN, AppendSpan
from mirror.protocol.batches.batch import CODEC_MASK
from mirror.protocol.batches.reframe import Run

_ATTRIBUTES_AT: Final = 22
"""Byte offset of the low byte of a batch's attributes; the high byte is unused."""


class Path(IntEnum):
    """Processing path of a batch."""

    PASSTHROUGH = 0
    """Unchanged from the source, except for the producer identity."""
    REFRAMED = 1
    """Decompressed, renumbered or merged, and compressed again; keys and values unchanged."""
    RECORDS = 2
    """Decoded and encoded, record by record."""


class OutBatch:
    """One batch to send.

    The batch accounts for the source offsets [`first_offset`, `next_offset`): `runs` are the offsets of its
    records, in order; `passed` has the class of all other offsets. `target`: destination offset, once
    acknowledged. The batch was received between `began_at` and `fetched_at` (monotonic seconds). `appended`:
    bounds of the time at which the records were appended to the source log.
    """

    __slots__ = (
        "acknowledged",
        "appended",
        "attributes",
        "batch",
        "began_at",
        "budget",
        "by_source",
        "count",
        "fetched_at",
        "first_offset",
        "first_timestamp",
        "is_small",
        "is_stamped",
        "max_timestamp",
        "maybe_stored",
        "next_offset",
        "outstanding",
        "passed",
        "path",
        "payload_bytes",
        "runs",
        "sent_at",
        "sequence",
        "slab",
        "source_batches",
        "source_bytes",
        "target",
    )

    def __init__(
        self, batch: memoryview, runs: tuple[Run, ...], count: int, first_offset: int, next_offset: int
    ) -> None:
        self.batch = batch
        self.attributes = batch[_ATTRIBUTES_AT]
        self.runs = runs
        self.count = count
        self.first_offset = first_offset
        self.next_offset = next_offset
        self.passed: list[SkippedOffsets] | None = None
        self.path = Path.PASSTHROUGH
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.by_source: tuple[tuple[int, int], ...] = ()
        """Newest timestamp and record count of each source batch; empty if there is only one source batch."""
        self.payload_bytes = 0
        self.source_batches = 1
        self.source_bytes = len(batch)
        self.appended: AppendSpan = UNKNOWN_SPAN
        self.began_at = 0.0
        self.fetched_at = 0.0
        self.sent_at = 0.0
        self.sequence = -1
        self.is_small = False
        """True if the source batches are small enough to be merged with the next ones of the response."""
        self.is_stamped = False
        self.outstanding = False
        self.acknowledged = False
        self.maybe_stored = False
        """True if a response was lost. The destination may have stored the batch."""
        self.target = -1
        self.slab: ReceiveBuffer | None = None
        self.budget: ByteBudget | None = None

    @property
    def is_compressed(self) -> bool:
        """True if the records are compressed."""
        return bool(self.attributes & CODEC_MASK)

    def hold(self, slab: ReceiveBuffer) -> None:
        """Add a reference to the buffer that contains the batch."""
        slab.retain()
        self.slab = slab

    def charge(self, budget: ByteBudget) -> None:
        """Charge the batch's own memory to a budget."""
        budget.take(len(self.batch))
        self.budget = budget

    def detach(self, budget: ByteBudget) -> None:
        """Copy the batch out of its receive buffer. The buffer can then receive further responses."""
        if self.slab is not None:
            slab, self.slab = self.slab, None
            self.batch = memoryview(bytearray(self.batch))
            self.charge(budget)
            slab.release()

    def forget(self) -> None:
        """Ignore a response to the batch. Frees the batch now, or when an outstanding response arrives."""
        if self.outstanding:
            self.outstanding = False
        else:
            self.free()

    def free(self) -> None:
        """Release the memory of the batch."""
        if self.slab is not None:
            slab, self.slab = self.slab, None
            slab.release()
        elif self.budget is not None:
            budget, self.budget = self.budget, None
            budget.give(len(self.batch))
        self.batch = _NOTHING


_NOTHING = memoryview(b"")

Item = OutBatch | SkippedOffsets


class FoundRecords(NamedTuple):
    """A run of `length` records that a comparison found at the destination. `source`, `target`: first offset
    of the run at the source and at the destination."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """The first batch that the destination rejected, with its response. The lane sends no further batch
    until every batch in flight has a response, and then decides how to continue."""

    outgoing: OutBatch
    code: int
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()


class LaneQueue:
    """Items in source order: `sent`, then `unsent`.

    `bytes_in_hand`: size of the batches. `trouble`: the first rejected batch. `is_slow`: the destination
    partition is under-replicated, so batches are sent alone. `damaged_sends`: number of batches that the
    destination has rejected as corrupt, all of them below the source offset `damaged_up_to`; reset when the
    batches up to that offset are accepted. `send_tries`: number of consecutive transient produce errors.
    """

    __slots__ = (
        "bytes_in_hand",
        "damaged_sends",
        "damaged_up_to",
        "in_flight",
        "is_slow",
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
        self.is_slow = False
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
