"""What the destination has lost behind a lane's back, as after an unclean election.

Its log then ends further in front, and what is written next takes the offsets of what was lost. Where those
are batches of the lane, their answers show it. Where they are markers, or batches of an owner that nothing
was stored of, it is to be read: a former owner must be fenced before, so that nothing more of its comes.

Certain loss is an offset of the map that lies behind the log's end, holds a marker, or holds a record of an
aborted transaction; a batch that was written under a younger epoch than what the lane knows of, where the
lane knows that its log was longer already; and a batch of any other writer at an offset of the map that the
lane's owner wrote itself (from `owned_from` on). While a lane runs, records that another producer writes
before the lane's next batch look as if they lay behind what was lost.
"""

from __future__ import annotations

from typing import NamedTuple

from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.lane.ledger import OffsetClass
from mirror.lane.offset_map import Precision
from mirror.lane.rules import AbortedFilter
from mirror.protocol.batches.batch import CONTROL, BatchHeader, scan
from mirror.replication.live_lane import LiveLane


class _Stored(NamedTuple):
    """A batch at the destination; `offset_class` is None for one that readers of committed records get."""

    header: BatchHeader
    offset_class: OffsetClass | None


async def surviving_end(target: Cluster, lane: LiveLane, first: int, end: int) -> int:
    """Up to where the destination, whose log is [first, end) now, has what it had when the lane learned its
    `target_next` and its map. Not less than `lane.target_end` where nothing shows a loss.

    Raises Unreachable, CorruptData.
    """
    upto = cursor = known_end(lane, end)
    mapped = lane.offset_map.target_end or 0
    while cursor > first:
        stored = await _stored_at(target, lane, cursor - 1)
        if stored is not None and _is_lost(lane, cursor - 1, stored):
            upto = cursor = stored.header.base_offset
        elif cursor > mapped:
            cursor = mapped  # what lies behind the map, such as markers, may be anybody's
        elif stored is not None and stored.offset_class is not None:
            cursor = stored.header.base_offset  # it lies between two runs of the map
        else:
            break
    return upto


def known_end(lane: LiveLane, end: int) -> int:
    """The same by the log's end alone."""
    return min(lane.target_end if lane.target_next is None else lane.target_next, end)


def _is_lost(lane: LiveLane, offset: int, stored: _Stored) -> bool:
    """Return whether the batch took the place of one that the lane knows of."""
    writer = stored.header.producer_id, stored.header.producer_epoch
    if lane.owner is not None and writer[0] == lane.owner[0] and writer[1] > lane.owner[1]:
        return True
    if lane.offset_map.backward(offset).precision is not Precision.EXACT:
        return False
    is_of_owner = lane.owned_from is not None and offset >= lane.owned_from
    return stored.offset_class is not None or (is_of_owner and writer != lane.owner)


async def holds_records(target: Cluster, lane: LiveLane, first: int, end: int) -> bool:
    """Whether somebody has written records to the destination, whose log is [first, end). Markers of
    transactions are none: fencing leaves one, also where no owner has written anything yet.

    Raises Unreachable, CorruptData.
    """
    while first < end:
        part = await target.patiently(
            lambda offset=first: fetch_once(target, lane.target, offset, committed=False),  # type: ignore[misc]
            topic=lane.target.topic,
        )
        headers = [header for _start, _end, header in scan(part.records) if header is not None]
        if any(not header.attributes & CONTROL for header in headers):
            return True
        if not headers:
            break  # up to the end everything is compacted away
        first = headers[-1].last_offset + 1
    return False


async def _stored_at(target: Cluster, lane: LiveLane, offset: int) -> _Stored | None:
    """The batch that has the offset; None when it is not known, as behind an open transaction or where the
    log is compacted."""
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
                return _Stored(header, aborted.offset_class(part.records[start:end], header))
        if len(part.records):
            break
    return None
