"""Rules for processing batches: destination limits, datastream options, and aborted transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Protocol

from mirror.errors import TransformFailed
from mirror.lane.ledger import OffsetClass
from mirror.model.reasons import legible, named
from mirror.protocol.batches.batch import CONTROL, HEADER_SIZE, TRANSACTIONAL, BatchHeader
from mirror.protocol.batches.decompression import LARGEST_PAYLOAD
from mirror.protocol.batches.records import MOST_PARTS, Record, read_batch

LARGEST_BATCH: Final = 1_048_588
"""Kafka's default of `max.message.bytes`, which includes the batch header."""

_ABORT_MARKER: Final = 0
_LARGEST_MARKER: Final = 4096
"""Maximum size of a control batch, which has one record."""


class Transform(Protocol):
    """Stateless function that changes one record, or drops it by returning None."""

    def __call__(self, record: Record) -> Record | None:
        """Return the record to write to the destination; its offset is ignored."""
        ...


@dataclass(frozen=True, slots=True)
class MergeRule:
    """Sizes that decide which small batches are merged, and the maximum size of a merged batch.

    `records`: by codec, the number of records below which a batch is small, because the cost of decompression
    depends on the codec. Sizes are compressed except `payload_bytes`.
    """

    records: tuple[int, int, int, int, int] = (40, 5, 20, 20, 10)
    small_bytes: int = 32 * 1024
    merged_bytes: int = 256 * 1024
    payload_bytes: int = 1024 * 1024


NO_MERGE: Final = MergeRule(records=(0, 0, 0, 0, 0), small_bytes=0)
"""Rule under which no batch is small enough to be merged."""


class Refusal(NamedTuple):
    """Decision to skip a source record or batch that was rejected, or cannot be decoded within the limits.

    `offset_class`: class of the skipped offsets. `leader_epoch`: latest leader epoch when the refusal was
    recorded. After an unclean election, other records may have the same offsets with a higher leader epoch;
    those records are copied.
    """

    offset_class: OffsetClass
    leader_epoch: int

    def concerns(self, leader_epoch: int) -> bool:
        """Return whether the refusal applies to a source batch with this leader epoch."""
        return leader_epoch <= self.leader_epoch


def refused(refusals: Mapping[int, Refusal], offset: int, leader_epoch: int) -> OffsetClass | None:
    """Return the offset class of a record that a `Refusal` skips, or None if it is not skipped.
    `leader_epoch`: leader epoch of its batch, -1 for messages of formats 0 and 1."""
    refusal = refusals.get(offset)
    return None if refusal is None or not refusal.concerns(leader_epoch) else refusal.offset_class


@dataclass(frozen=True, slots=True)
class RoutingRules:
    """Rules for processing the batches of a lane.

    `batch_limit`: maximum size in bytes of a batch with several records, the destination's limit or less.
    `record_limit`: the destination's limit, which applies to a batch with one record. `merge`: None if small
    batches are not merged. `keeps_append_time`: append times of the source become timestamps of the records.
    `omitted`: records that the destination rejected, by source offset. `opened_from`, `opened_below`,
    `opened_epoch`: range of source offsets and maximum leader epoch of batches that must be encoded again.
    `opens_singly`: each record of these batches becomes a batch. `transform_names`: names of the transforms
    for messages. `opened_bytes`, `opened_records`: limits for decoding a batch, unless it is larger itself.
    `unopened`: skipped batches by last offset, because they exceed the limits or cannot be decoded.
    `refused_of`: topic id and cluster id to which the refusals belong, empty if unknown; `refused_life`:
    `LaneProgress.life` when the last refusal was added.
    """

    read_committed: bool = True
    batch_limit: int = LARGEST_BATCH
    record_limit: int = LARGEST_BATCH
    merge: MergeRule | None = None
    keeps_append_time: bool = True
    takes_zstd: bool = True
    opens_records: bool = False
    transforms: tuple[Transform, ...] = ()
    transform_names: tuple[str, ...] = ()
    omitted: Mapping[int, Refusal] = field(default_factory=dict)
    unopened: Mapping[int, Refusal] = field(default_factory=dict)
    opened_bytes: int = LARGEST_PAYLOAD
    opened_records: int = MOST_PARTS
    opened_from: int = 0
    opened_below: int = -1
    opened_epoch: int = -1
    opens_singly: bool = False
    refused_of: tuple[bytes, str] = (b"", "")
    refused_life: int = 0

    def with_refusals_of(self, topic_id: bytes, cluster_id: str) -> RoutingRules:
        """Return a copy of the rules without the records and batches to skip in other topics."""
        topic = (topic_id, cluster_id)
        return self if topic == self.refused_of else self.without_refusals()

    def without_refusals(self) -> RoutingRules:
        """Return a copy of the rules without any records and batches to skip."""
        if not self.omitted and not self.unopened and self.opened_below < 0:
            return self
        return replace(
            self,
            omitted={},
            unopened={},
            opened_from=0,
            opened_below=-1,
            opened_epoch=-1,
            opens_singly=False,
            refused_life=0,
        )

    def is_opened(self, first: int, last: int, leader_epoch: int) -> bool:
        """Return whether the destination rejected the batch, which must therefore be encoded again."""
        if first < self.opened_below and last >= self.opened_from and leader_epoch <= self.opened_epoch:
            return True
        return any(
            first <= offset <= last and refusal.concerns(leader_epoch)
            for offset, refusal in self.omitted.items()
        )

    def transform(self, record: Record) -> Record | None:
        """Return the transformed record, or None if a transform dropped it. Raises TransformFailed."""
        changed = record
        for number, step in enumerate(self.transforms):
            try:
                made = step(changed)
                if made is None:
                    return None
                changed = made._replace(offset=record.offset)
            except BaseException as error:  # a third-party transform may even raise SystemExit
                raise self.transform_failed(record.offset, error, number) from error
        return changed

    def transform_failed(self, offset: int, error: BaseException, number: int = -1) -> TransformFailed:
        """Return the error for a record that a transform failed on. `number`: index of the transform; -1 for
        the last."""
        name = self.transform_names[number] if self.transform_names else "?"
        return TransformFailed(
            legible(f"transform {name} failed on the record at offset {offset}: {named(error)}", 500),
            offset=offset,
            advice="fix the transform or the record, or set on-rejection to dead-letter or skip",
        )


class AbortedFilter:
    """Finds the batches of aborted transactions. Call it with the batches in offset order.

    `aborted`: (producer id, first offset) in the fetch response. The filter skips the batches of a producer
    from that offset to its abort marker, as `CompletedFetch` of Apache Kafka does.
    """

    __slots__ = ("_active", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda entry: -entry[1])
        self._active: set[int] = set()

    def offset_class(self, batch: memoryview, header: BatchHeader) -> OffsetClass | None:
        """Return CONTROL or ABORTED for a batch to skip, or None if the batch must be copied."""
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._active.add(self._waiting.pop()[0])
        if header.attributes & CONTROL:
            if header.producer_id in self._active and _is_abort(batch, header):
                self._active.discard(header.producer_id)
            return OffsetClass.CONTROL
        if header.attributes & TRANSACTIONAL and header.producer_id in self._active:
            return OffsetClass.ABORTED
        return None


def _is_abort(batch: memoryview, header: BatchHeader) -> bool:
    if len(batch) <= HEADER_SIZE:
        return False
    records = read_batch(batch, header, _LARGEST_MARKER, 1)
    key = records[0].key if records else None
    return key is not None and int.from_bytes(key[2:4], "big") == _ABORT_MARKER
