"""Comparison of a lane's ledger with the records that the source still has."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from mirror.audit.record_tally import LeftOut
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.model.topics import DEAD_LETTER_SUFFIX
from tests.fakes.broker import batches
from tests.fakes.broker.batches import StoredBatch
from tests.fakes.broker.contents import Seen, committed
from tests.fakes.broker.log import PartitionLog
from tests.fakes.broker.mirrored import MirroredFakes


class DeadLetter(NamedTuple):
    """Dead letter: source offset and value."""

    offset: int
    value: bytes | None


def letters_of(fakes: MirroredFakes, topic: str, number: int = 0) -> list[DeadLetter]:
    """Return the dead letters of a partition, in order."""
    name = topic + DEAD_LETTER_SUFFIX
    if name not in fakes.target.topics:
        return []
    found = []
    for one in committed(fakes.target.log(name, 0)):
        headers = dict(one.headers)
        if headers["headrace-partition"] == b"%d" % number:
            found.append(DeadLetter(int(headers["headrace-offset"] or b"-1"), one.value))
    return found


def check_accounts(
    fakes: MirroredFakes,
    topic: str,
    number: int = 0,
    is_lost: Callable[[Seen], bool] = lambda _record: False,
) -> None:
    """Check that every source record before the checkpoint is copied, dead-lettered, or skipped by policy.

    `is_lost`: whether the destination has lost the record since. Raises AssertionError.
    """
    lane, log = fakes.lane(topic, number), fakes.source.log(topic, number)
    copies = {one.offset: one for one in fakes.copied(topic, number)}
    contents = {one.content for one in copies.values()}
    left_out, lettered = (
        LeftOut(lane.progress.ledger, lane.progress.offset_map),
        _lettered(fakes, topic, number),
    )
    records = {one.offset: one for one in committed(log)}
    opaque = _undecodable_offsets(log)
    assert lane.progress.ledger.is_balanced
    for offset in [*records, *opaque]:
        if not lane.progress.ledger.start <= offset < lane.checkpoint:
            continue
        where = lane.progress.offset_map.forward(offset)
        if where.precision == "exact":
            assert offset in opaque or copies[where.offset].content == records[offset].content
        elif lane.progress.gaps and offset in records and records[offset].content in contents:
            continue  # position lost: the lane learned too late that the topic was replaced
        elif not (offset in records and is_lost(records[offset])):
            assert left_out.are_left_out(offset, offset + 1), f"{topic}-{number} lacks {offset}"
            is_skip = lane.spec.policy.on_rejection == "skip"
            assert is_skip or offset in lettered, f"{topic}-{number} has no letter for {offset}"
    _check_counts(lane, log)


def _check_counts(lane: Lane, log: PartitionLog) -> None:
    """Check that at most the missing source offsets count as compacted away."""
    span = range(max(lane.progress.ledger.start, log.start), lane.checkpoint)
    held = {offset for batch in log.batches for offset in _offsets_of(batch) if offset in span}
    holes = len(range(lane.progress.ledger.start, lane.checkpoint)) - len(held)
    assert lane.progress.ledger.total(OffsetClass.COMPACTED) <= holes


def _offsets_of(batch: StoredBatch) -> Collection[int]:
    """Return the offsets of the records of a batch, or its whole range if it cannot be decoded."""
    records = batches.records_of(batch.data)
    return range(batch.base, batch.last + 1) if records is None else [record.offset for record in records]


def _undecodable_offsets(log: PartitionLog) -> list[int]:
    return [
        offset
        for batch in log.batches
        if batches.records_of(batch.data) is None
        for offset in range(max(batch.base, log.start), batch.last + 1)
    ]


def _lettered(fakes: MirroredFakes, topic: str, number: int) -> set[int]:
    """Return the source offsets in dead letters: of one record, or from a record to the end of its batch."""
    found: set[int] = set()
    for letter in letters_of(fakes, topic, number):
        found.add(letter.offset)
        if letter.value is not None and batches.whole_batches(letter.value):
            read = batches.view(letter.value)
            found.update(range(letter.offset, read.base_offset + read.last_offset_delta + 1))
    return found
