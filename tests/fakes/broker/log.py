"""Log of one partition: stored batches, the offsets that bound reads, and the history of leader epochs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from tests.fakes.broker import batches
from tests.fakes.broker.batches import StoredBatch
from tests.fakes.broker.producers import ProducerTable


class AbortedTransaction(NamedTuple):
    """Transaction that read_committed readers skip; `marker` is the offset of its end."""

    producer: int
    first: int
    marker: int


class ReadResult(NamedTuple):
    """Bytes from the log; `end` is the offset after the last batch that is at least partly included."""

    data: bytes
    end: int


class PartitionLog:
    """Log of a partition. `end`: next offset to write; reads stop before `high_watermark`."""

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.start = 0
        self.end = 0
        self.high_watermark = 0
        self.tiered_to = 0
        """First offset on local disks; earlier ones are only in remote storage (KIP-405)."""
        self.is_replicated = True
        """If false, the high watermark does not advance."""
        self.epochs: list[tuple[int, int]] = []
        """(leader epoch, its first offset), ascending."""
        self.producers = ProducerTable()
        self.open: dict[int, int] = {}
        """First offset of the open transaction, by producer id."""
        self.aborted: list[AbortedTransaction] = []
        self._decided: list[tuple[int, int]] = []

    def append(self, data: bytes, epoch: int, now_ms: int) -> StoredBatch:
        """Append a batch."""
        batch = batches.stored(data, self.end, epoch, now_ms)
        self._take(batch)
        if self.is_replicated:
            self.high_watermark = self.end
        return batch

    def replicate(self) -> None:
        """Replicate everything to every replica."""
        self.is_replicated = True
        self.high_watermark = self.end

    def begin_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the current end."""
        if self.epochs and self.epochs[-1][1] == self.end:
            self.epochs.pop()
        self.epochs.append((epoch, self.end))

    @property
    def last_stable(self) -> int:
        """Offset before which all transactions are decided by replicated markers."""
        undecided = [first for first, marker in self._decided if marker >= self.high_watermark]
        return min([self.high_watermark, *self.open.values(), *undecided])

    def bound(self, *, committed: bool) -> int:
        """Return the offset at which reads stop."""
        return self.last_stable if committed else self.high_watermark

    def read(self, offset: int, limit: int, size: int, *, whole_first: bool) -> ReadResult:
        """Return batches from the one with `offset`, of those that start below `limit`, cut at `size` bytes.

        `whole_first`: the first batch is returned whole, however large.
        """
        found = bytearray()
        end = offset
        for batch in self.batches[self._index(offset) :]:
            if batch.base >= limit:
                break
            if len(found) >= size and (found or not whole_first):
                break
            room = len(batch.data) if whole_first and not found else size - len(found)
            if not found and room < len(batch.data):
                break
            found += batch.data[:room]
            end = batch.last + 1
            if room < len(batch.data):
                break
        return ReadResult(bytes(found), end)

    def aborted_between(self, first: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions in this offset range."""
        return [one for one in self.aborted if one.marker >= first and one.first < end]

    def find_time(self, timestamp: int) -> tuple[int, int, int] | None:
        """Return (offset, timestamp, leader epoch) of the first visible record that is not older, or None."""
        for batch in self.batches:
            if batch.max_timestamp < timestamp or batch.base >= self.high_watermark:
                continue
            if batch.attributes & batches.CODEC == batches.SNAPPY:
                return batch.base, batch.max_timestamp, batch.epoch
            for record in batches.records_of(batch.data) or []:
                if record.timestamp >= timestamp and record.offset >= self.start:
                    return record.offset, record.timestamp, batch.epoch
        return None

    def epoch_at(self, offset: int) -> int:
        """Return the leader epoch that wrote, or will write, the offset; -1 if there has been no leader."""
        known = [epoch for epoch, first in self.epochs if first <= offset]
        return known[-1] if known else -1

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return (largest epoch up to this one, offset after its last record), or (-1, -1) if newer."""
        index = bisect_right([one for one, _ in self.epochs], epoch)
        if index == len(self.epochs):
            known = bool(self.epochs) and self.epochs[-1][0] == epoch
            return (epoch, self.end) if known else (-1, -1)
        return (self.epochs[index - 1][0] if index else epoch), self.epochs[index][1]

    def truncate(self, end: int) -> None:
        """Drop everything from the batch that contains `end`, as after an unclean election."""
        kept = [batch for batch in self.batches if batch.last < end]
        epochs, self.epochs = self.epochs, []
        self.batches = []
        self.producers, self.open, self.aborted, self._decided = ProducerTable(), {}, [], []
        old_end = self.end
        for batch in kept:
            self._take(batch)
        self.epochs = [one for one in epochs if one[1] < end]
        self.end = min(old_end, end)
        self.start = min(self.start, self.end)
        self.high_watermark = min(self.high_watermark, self.end)

    def delete_before(self, offset: int) -> None:
        """Advance the log start offset like retention or DeleteRecords."""
        self.start = min(max(self.start, offset), self.end)
        self.batches = [batch for batch in self.batches if batch.last >= self.start]

    def compact(self, offset: int, replacement: bytes | None) -> None:
        """Replace the batch that contains the offset with another one, or remove it."""
        index = self._index(offset)
        old = self.batches[index]
        if replacement is None:
            del self.batches[index]
        else:
            self.batches[index] = batches.stored(replacement, old.base, old.epoch, old.appended_ms)

    def replace(self, old: StoredBatch, replacements: Sequence[tuple[int, bytes]]) -> None:
        """Replace a batch that is still in the log with batches at these offsets."""
        index = self.batches.index(old)
        self.batches[index : index + 1] = [
            batches.stored(data, base, old.epoch, old.appended_ms) for base, data in replacements
        ]

    def _index(self, offset: int) -> int:
        return bisect_right([batch.last for batch in self.batches], offset - 1)

    def _take(self, batch: StoredBatch) -> None:
        if not self.epochs or batch.epoch > self.epochs[-1][0]:
            self.epochs.append((batch.epoch, batch.base))
        self.batches.append(batch)
        self.end = batch.last + 1
        if batch.producer >= 0:
            self.producers.note(batch)
        if batch.is_control:
            self._decide(batch)
        elif batch.is_transactional:
            self.open.setdefault(batch.producer, batch.base)

    def _decide(self, batch: StoredBatch) -> None:
        first = self.open.pop(batch.producer, None)
        if first is None:
            return
        self._decided.append((first, batch.base))
        (record,) = batches.view(batch.data)
        if record.abort:
            self.aborted.append(AbortedTransaction(batch.producer, first, batch.base))
