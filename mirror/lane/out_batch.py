"""What a lane has in hand between the source and the destination, in source order."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from mirror.lane.ledger import SkippedOffsets
from mirror.lane.memory import ByteBudget, Slab
from mirror.protocol.batches.batch import CODEC_MASK
from mirror.protocol.batches.reframe import Run

_ATTRIBUTES_AT: Final = 22
"""The low byte of a batch's attributes; the high one is not used."""


class Path(IntEnum):
    """How a batch came to be."""

    PASSTHROUGH = 0
    """As it was at the source, with our identity."""
    REFRAMED = 1
    """Decompressed, renumbered or merged, compressed again; keys and values untouched."""
    RECORDS = 2
    """Decoded and encoded, record by record."""


class OutBatch:
    """One batch on its way.

    It accounts for the source offsets from `first_offset` up to `next_offset`: `runs` are those of its
    records, in order; `passed` has the class of the others. `target`: where the destination has it,
    once acknowledged. Times are monotonic seconds; between `began_at` and `fetched_at` it was received.
    """

    __slots__ = (
        "acknowledged",
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
        """The newest timestamp and the number of records of each source batch; empty where it is one."""
        self.payload_bytes = 0
        self.source_batches = 1
        self.source_bytes = len(batch)
        self.began_at = 0.0
        self.fetched_at = 0.0
        self.sent_at = 0.0
        self.sequence = -1
        self.is_small = False
        """Made of batches that are merged with what follows in the same answer."""
        self.is_stamped = False
        self.outstanding = False
        self.acknowledged = False
        self.maybe_stored = False
        """An answer was lost: the destination may have it all the same."""
        self.target = -1
        self.slab: Slab | None = None
        self.budget: ByteBudget | None = None

    @property
    def is_compressed(self) -> bool:
        """Whether its records are compressed."""
        return bool(self.attributes & CODEC_MASK)

    def hold(self, slab: Slab) -> None:
        """The batch lies in that buffer."""
        slab.retain()
        self.slab = slab

    def charge(self, budget: ByteBudget) -> None:
        """The batch has memory of its own."""
        budget.take(len(self.batch))
        self.budget = budget

    def detach(self, budget: ByteBudget) -> None:
        """Copy the batch out of a buffer that others wait for."""
        if self.slab is not None:
            slab, self.slab = self.slab, None
            self.batch = memoryview(bytearray(self.batch))
            self.charge(budget)
            slab.release()

    def forget(self) -> None:
        """Nobody waits for the answer; the bytes are let go, when it comes if the batch is outstanding."""
        if self.outstanding:
            self.outstanding = False
        else:
            self.free()

    def free(self) -> None:
        """The bytes are not needed any more."""
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
    """Records that a comparison has found at the destination: `length` of them, from `source` and `target`
    on."""

    source: int
    target: int
    length: int


@dataclass(frozen=True, slots=True)
class Trouble:
    """The first batch that the destination did not take, and its words. Nothing more is sent until all
    that is outstanding is answered; then it is decided how to go on."""

    outgoing: OutBatch
    code: int
    message: str = ""
    record_errors: tuple[tuple[int, str], ...] = ()
