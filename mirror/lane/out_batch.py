"""Queue of a lane's batches in source order: unsent, sent and rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mirror.errors import BatchTooLarge, CorruptData, RecordTooLarge, TransformFailed
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.ledger import SkippedOffsets, Unaccounted, compacted
from mirror.lane.memory import ReceiveBuffer
from mirror.model.movement.append_times import UNKNOWN_SPAN, AppendSpan
from mirror.protocol.batches.batch import CODEC_MASK, HEADER_SIZE, BatchHeader
from mirror.protocol.batches.holes import OffsetHole, Span
from mirror.protocol.batches.reframe import Run

_ATTRIBUTES_AT: Final = 22
"""Position of the low attribute byte in a batch header; the high byte is unused."""


class Path(IntEnum):
    """How a batch was processed (such as copied unchanged or decoded)."""

    PASSTHROUGH = 0
    """Unchanged from the source, except for the producer identity."""
    REFRAMED = 1
    """Decompressed, renumbered or merged, and compressed again, with the same keys and values."""
    RECORDS = 2
    """Decoded and encoded record by record."""


class BatchOrigin:
    """Source batches from which a batch to send was made.

    `passed`: skipped offsets between its records. `by_source`: newest timestamp and record count of each
    source batch. `source_bytes`: size of the source batches; `payload_bytes`: size of the records of the
    batch before compression, 0 if unknown.
    """

    __slots__ = ("by_source", "passed", "path", "payload_bytes", "source_batches", "source_bytes")

    def __init__(
        self,
        path: Path,
        passed: Sequence[SkippedOffsets],
        by_source: tuple[tuple[int, int], ...],
        source_batches: int,
        source_bytes: int,
        payload_bytes: int,
    ) -> None:
        self.path = path
        self.passed = passed
        self.by_source = by_source
        self.source_batches = source_batches
        self.source_bytes = source_bytes
        self.payload_bytes = payload_bytes


class OutBatch:
    """A batch to send to the destination, and the source offsets that it accounts for.

    The batch accounts for the source offsets [`first_offset`, `next_offset`): `runs` are the offsets of its
    records, in order; `made_from` has the class of all other offsets, and is None if the batch is unchanged.
    `target`: destination offset, once acknowledged. `received`: start and end of the time in which the batch
    was received (monotonic seconds). `appended`: bounds of the time at which the records were appended to the
    source log. `sequence`: -1 until the batch is stamped.
    """

    __slots__ = (
        "acknowledged",
        "appended",
        "attributes",
        "batch",
        "budget",
        "count",
        "first_offset",
        "first_timestamp",
        "is_small",
        "made_from",
        "max_timestamp",
        "maybe_stored",
        "next_offset",
        "outstanding",
        "received",
        "runs",
        "sent_at",
        "sequence",
        "slab",
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
        self.made_from: BatchOrigin | None = None
        self.first_timestamp = -1
        self.max_timestamp = -1
        self.appended: AppendSpan = UNKNOWN_SPAN
        self.received = (0.0, 0.0)
        self.sent_at = 0.0
        self.sequence = -1
        self.is_small = False
        """True if the source batches are small enough to be merged with the next ones of the response."""
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

    @property
    def is_stamped(self) -> bool:
        """True if the batch has the lane's producer id, epoch and sequence number."""
        return self.sequence >= 0

    @property
    def origin(self) -> BatchOrigin:
        """Source batches that the batch was made of, also if it is unchanged."""
        size, times = len(self.batch), ((self.max_timestamp, self.count),)
        payload = 0 if self.is_compressed else size - HEADER_SIZE
        return self.made_from or BatchOrigin(Path.PASSTHROUGH, (), times, 1, size, payload)

    def hold(self, slab: ReceiveBuffer) -> None:
        """Add a reference to the receive buffer that contains the batch."""
        slab.retain()
        self.slab = slab

    def charge(self, budget: ByteBudget) -> None:
        """Charge the memory of the batch to a budget."""
        budget.take(len(self.batch))
        self.budget = budget

    def detach(self, budget: ByteBudget) -> None:
        """Copy the batch out of its receive buffer, so that the buffer can be reused."""
        if self.slab is not None:
            slab, self.slab = self.slab, None
            self.batch = memoryview(bytearray(self.batch))
            self.charge(budget)
            slab.release()

    def forget(self) -> None:
        """Ignore any response to the batch. The batch's memory is freed when no response is outstanding."""
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


class RoutedItems:
    """Results of processing one Fetch response, in source order: batches to send, and skipped offsets.

    `items` account for every offset below `cursor`. The offsets from there to `position` belong to batches
    that are not routed yet, and to `skipped`. The memory of rebuilt batches is charged to `budget`.
    """

    __slots__ = ("_budget", "cursor", "items", "position", "skipped", "slab")

    def __init__(self, position: int, budget: ByteBudget) -> None:
        self.cursor = self.position = position
        self.items: list[Item] = []
        self.skipped: list[SkippedOffsets] = []
        self.slab: ReceiveBuffer | None = None
        self._budget = budget

    def skip(self, skipped: SkippedOffsets) -> None:
        """Add skipped offsets that follow the last offset."""
        if self.cursor < self.position:
            self.skipped.append(skipped)
        else:
            self.items.append(skipped)
            self.cursor = skipped.next
        self.position = skipped.next

    def skip_hole(self, following: int, evidence: Span) -> None:
        """Skip the offsets before `following`, which have no record, as the batch `evidence` proves."""
        if self.position < following:
            self.skip(compacted(OffsetHole(self.position, following, evidence)))

    def note_hole(self, following: int, evidence: Span) -> None:
        """Add skipped offsets before `following` within a batch that is not added yet."""
        if self.position < following:
            self.skipped.append(compacted(OffsetHole(self.position, following, evidence)))
            self.position = following

    def send_skipped(self) -> None:
        """Add the skipped offsets that directly follow the last item."""
        sent = 0
        for skipped in self.skipped:
            if skipped.first != self.cursor:
                break
            self.items.append(skipped)
            self.cursor = skipped.next
            sent += 1
        del self.skipped[:sent]

    def add_unopened(self, batch: memoryview, header: BatchHeader, *, is_small: bool = False) -> None:
        """Add a batch that is sent unchanged."""
        assert self.slab is not None, "batches taken have a slab"
        base, count = header.base_offset, header.record_count
        outgoing = OutBatch(batch, ((base, count),), count, base, base + count)
        outgoing.first_timestamp, outgoing.max_timestamp = header.first_timestamp, header.max_timestamp
        outgoing.is_small = is_small
        outgoing.hold(self.slab)
        self.items.append(outgoing)
        self.cursor = base + count

    def add_made(self, outgoing: OutBatch) -> None:
        """Add a re-encoded batch. Call `pass_to` first."""
        assert self.slab is not None, "batches taken have a slab"
        outgoing.charge(self._budget)
        self.slab.made_bytes += len(outgoing.batch)
        self.items.append(outgoing)

    def pass_to(self, after: int, count: int) -> Sequence[SkippedOffsets]:
        """Advance to source offset `after`, and return the skipped offsets before it. Raises Unaccounted
        unless these and `count` records cover the range."""
        passed = [skipped for skipped in self.skipped if skipped.first < after]
        unknown = after - self.cursor - count - sum(skipped.count for skipped in passed)
        if unknown:
            raise Unaccounted(f"{unknown} source offsets from {self.cursor} to {after - 1} have no class")
        del self.skipped[: len(passed)]
        self.cursor = after
        return passed

    def __enter__(self) -> RoutedItems:
        """Begin to add a batch. First adds the skipped offsets that precede it."""
        if self.skipped:
            self.send_skipped()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _trace: object) -> None:
        """End the addition of a batch. After an error in it, drop all offsets behind the last added batch;
        otherwise, raise Unaccounted unless every offset is accounted for."""
        if isinstance(error, (CorruptData, BatchTooLarge, RecordTooLarge, TransformFailed)):
            self.send_skipped()
            self.skipped = []
            self.position = self.cursor
        elif error is None:
            if self.skipped:
                self.send_skipped()
            if self.skipped or self.cursor != self.position:
                raise Unaccounted(f"source offsets {self.cursor} to {self.position - 1} have no class")


class FoundRecords(NamedTuple):
    """A run of copies that already exist at the destination. `source`, `target`: first offset at the source
    and at the destination. `length`: number of records."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class RejectedBatch:
    """The first batch of a lane that the destination rejected, with the error. The lane sends nothing more
    until every batch in flight has a response."""

    outgoing: OutBatch
    code: int
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()


class LaneQueue:
    """Queue of a lane's items in source order: first `sent`, then `unsent`.

    `bytes_in_hand`: size of all batches. `trouble`: the first rejected batch. `is_slow`: the destination
    partition is under-replicated, so the lane sends one batch at a time. `damaged_sends`: number of batches
    below the source offset `damaged_up_to` that the destination rejected as corrupt; reset when all batches
    below that offset are accepted. `send_tries`: consecutive transient produce errors.
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
        """Return whether the lane's queue is empty."""
        return not self.unsent and not self.sent

    def batches(self) -> Iterator[OutBatch]:
        """Yield the unacknowledged batches in order."""
        for item in (*self.sent, *self.unsent):
            if isinstance(item, OutBatch) and not item.acknowledged:
                yield item

    @property
    def first(self) -> OutBatch | None:
        """First unacknowledged batch of the lane, or None."""
        return next(self.batches(), None)

    @property
    def is_settled(self) -> bool:
        """Return whether every sent batch of the lane is acknowledged."""
        if self.in_flight or self.trouble is not None:
            return False
        return not any(batch.is_stamped for batch in self.batches())

    @property
    def is_ambiguous(self) -> bool:
        """Return whether unacknowledged batches of the lane may already be stored at the destination."""
        return any(batch.maybe_stored for batch in self.batches())
