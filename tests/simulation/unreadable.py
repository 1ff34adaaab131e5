"""Batches in a source log that a mirror cannot decode, and batches after compaction."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from tests.fakes.broker import batches
from tests.fakes.broker.batches import Content, StoredBatch
from tests.fakes.broker.log import PartitionLog
from tests.fakes.broker.mirrored import MirroredFakes
from tests.simulation.judge import Judge

OPENED_BYTES: Final = 20_000
"""Maximum decompressed batch size of the engine."""
_VALUE_BYTES: Final = OPENED_BYTES * 3 // 4


class UnreadableBatches:
    """Such batches of one partition.

    `pauses`: the mirror halts at such batches until an operator repairs them.
    """

    def __init__(self, fakes: MirroredFakes, topic: str, number: int, judge: Judge, *, pauses: bool) -> None:
        self._fakes, self._topic, self._number = fakes, topic, number
        self._judge = judge
        self._pauses = pauses
        self._good: dict[bytes, dict[int, Content]] = {}
        """Records by index in the batch, for each batch (its bytes)."""

    def add_undecodable(self, records: Sequence[Content], codec: int, seconds: float) -> None:
        """Append a batch with an undecodable payload and a valid checksum."""
        self._add(batches.undecodable(batches.build(records, codec=codec)), records, seconds)

    def add_oversized(self, first: int, count: int, codec: int, seconds: float) -> None:
        """Append a batch of `count` records that exceeds the engine's limit when decompressed."""
        plain = self._fakes.records(first, count)
        records = [
            (at, key, (value or b"").zfill(_VALUE_BYTES), headers) for at, key, value, headers in plain
        ]
        self._add(batches.build(records, codec=codec), records, seconds)
        self._judge.may_leave_out(records)

    def _add(self, data: bytes, records: Sequence[Content], seconds: float) -> None:
        self._fakes.source.append(self._topic, data, self._number)
        stored = self._log.batches[-1]
        self._good[stored.data[8:]] = dict(enumerate(records))
        if self._pauses:
            self._fakes.source.later(seconds, self.mend)

    @property
    def _log(self) -> PartitionLog:
        return self._fakes.source.log(self._topic, self._number)

    def mend(self) -> None:
        """Replace the undecodable batches with decodable ones of one record each."""
        for stored in list(self._log.batches):
            records = self._good.get(stored.data[8:])
            if records is not None:
                made = [(stored.base + place, batches.build([one])) for place, one in records.items()]
                self._log.replace(stored, made)

    def compact(self, random: Random) -> None:
        """Remove some or all records of a batch; an empty batch is kept or removed."""
        log = self._log
        candidates = [batch for batch in log.batches[:-1] if _can_be_compacted(batch)]
        if not candidates:
            return
        old = random.choice(candidates)
        read = batches.view(old.data)
        places = [place for place in range(read.records_count) if random.random() < 0.5]
        self._judge.source_loses()
        if not places and random.random() < 0.5:
            log.replace(old, [])
            return
        rest = batches.emptied(old.data, places)
        log.replace(old, [(old.base, rest)])
        records = self._good.get(old.data[8:])
        if records is not None and places:
            (stored,) = [batch for batch in log.batches if batch.base == old.base]
            self._good[stored.data[8:]] = {place: records[place] for place in places}


def _can_be_compacted(batch: StoredBatch) -> bool:
    """Return whether it is a plain batch with a record at every offset."""
    if batch.is_control or batch.is_transactional:
        return False
    return len(batches.records_of(batch.data) or []) == batch.count > 1
