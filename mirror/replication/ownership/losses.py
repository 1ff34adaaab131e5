"""Detects records that the destination has lost, for example in an unclean leader election.

After a loss, the destination log ends earlier, and new writes reuse the offsets of the lost records. Lost
batches of a running lane show in produce responses. Lost markers, and lost batches of an owner that stored no
progress, show only in the log. Former owners are fenced before the log is read, so that they cannot write any
more records. Any of the following proves a loss:

- An offset in the lane's map is after the end of the log, at a marker, or in an aborted transaction.
- A batch below the last known end has a newer epoch than any that the lane knows.
- An offset that the lane's owner wrote (from `owned_from` on) belongs to a batch of another writer.

Limit: if another producer writes before the lane's next batch, the new records have the offsets of the lost
records, and a running lane may not detect the loss.
"""

from __future__ import annotations

from typing import NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.lane.lane import Lane
from mirror.lane.ledger import OffsetClass
from mirror.lane.offset_map import Precision
from mirror.lane.rules import AbortedFilter
from mirror.protocol.batches.batch import CONTROL, BatchHeader, scan


class _StoredBatch(NamedTuple):
    """A batch in the destination log.

    `offset_class` is None if read-committed consumers receive the batch.
    """

    header: BatchHeader
    offset_class: OffsetClass | None


async def surviving_end(target: Cluster, lane: Lane, first: int, end: int) -> int:
    """Return the offset up to which the destination log is unchanged since the lane stored its progress.

    [first, end): current offsets of the log. Without a loss, the result is at least
    `lane.progress.target_end`. Raises Unreachable, CorruptData.
    """
    upto = cursor = known_end(lane, end)
    mapped = lane.progress.offset_map.target_end or 0
    while cursor > first:
        stored = await _stored_at(target, lane, cursor - 1)
        if stored is not None and _is_lost(lane, cursor - 1, stored):
            upto = cursor = stored.header.base_offset
        elif cursor > mapped:
            cursor = mapped  # any producer may have written the records and markers after the map
        elif stored is not None and stored.offset_class is not None:
            cursor = stored.header.base_offset  # the offset is between two runs of the map
        else:
            break
    return upto


def known_end(lane: Lane, end: int) -> int:
    """Return the upper bound of `surviving_end` that is known from the end of the destination log alone."""
    return min(
        lane.progress.target_end if lane.progress.target_next is None else lane.progress.target_next, end
    )


def _is_lost(lane: Lane, offset: int, stored: _StoredBatch) -> bool:
    """Return whether the destination has another batch at this offset than the lane's offset map expects."""
    writer = stored.header.producer_id, stored.header.producer_epoch
    if (
        lane.progress.owner is not None
        and writer[0] == lane.progress.owner[0]
        and writer[1] > lane.progress.owner[1]
    ):
        return True
    if lane.progress.offset_map.backward(offset).precision is not Precision.EXACT:
        return False
    is_of_owner = lane.progress.owned_from is not None and offset >= lane.progress.owned_from
    return stored.offset_class is not None or (is_of_owner and writer != lane.progress.owner)


async def holds_records(target: Cluster, lane: Lane, first: int, end: int) -> bool:
    """Return whether the destination has records with offsets in [first, end). Transaction markers do not
    count, because fencing writes a marker even without records. Raises Unreachable, CorruptData."""
    while first < end:
        part = await target.patiently(
            lambda offset=first: fetch_once(target, lane.target, offset, committed=False),  # type: ignore[misc]
            topic=lane.target.topic,
        )
        headers = [header for _start, _end, header in scan(part.records) if header is not None]
        if any(not header.attributes & CONTROL for header in headers):
            return True
        if not headers:
            break  # compaction removed the other records
        first = headers[-1].last_offset + 1
    return False


async def _stored_at(target: Cluster, lane: Lane, offset: int) -> _StoredBatch | None:
    """Return the batch at a destination offset, or None if unknown (open transaction, compaction)."""
    for committed in (True, False):
        part = await target.patiently(
            lambda committed=committed: fetch_once(  # type: ignore[misc]
                target, lane.target, offset, committed=committed, most_bytes=1
            ),
            topic=lane.target.topic,
        )
        aborted = AbortedFilter(part.aborted)
        for start, end, header in scan(part.records):
            if header is not None and header.base_offset <= offset <= header.last_offset:
                return _StoredBatch(header, aborted.offset_class(part.records[start:end], header))
        if len(part.records):
            break
    return None
