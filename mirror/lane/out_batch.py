"""Items of a lane between source and destination, in source order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mirror.lane.ledger import SkippedOffsets
from mirror.lane.memory import ByteBudget, ReceiveBuffer
from mirror.model.movement.append_times import UNKNOWN_SPAN, AppendSpan
from mirror.protocol.batches.batch import CODEC_MASK
from mirror.protocol.batches.reframe import Run

_ATTRIBUTES_AT: Final = 22
"""Offset of the low byte of a batch's attributes; the high byte is unused."""


class Path(IntEnum):
    """Processing path of a batch."""

    PASSTHROUGH = 0
    """Unchanged from the source, except for the producer identity."""
    REFRAMED = 1
    """Decompressed, renumbered or merged, and compressed; keys and values unchanged."""
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
        """True if a response was lost, so the destination may have stored the batch."""
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
        """Copy the batch out of its receive buffer, so that the buffer can receive further responses."""
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
    """The first batch that the destination rejected, with its response.

    The lane sends no further batch until every outstanding batch has a response, and then decides how to
    continue.
    """

    outgoing: OutBatch
    code: int
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()
