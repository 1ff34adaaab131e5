"""Measures how many records and seconds a failover would lose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.client.cluster import Cluster
from mirror.client.log_reader import fetch_once
from mirror.errors import HeadraceError
from mirror.jobs.dr.fork import Loss, loss_of
from mirror.jobs.dr.stillness import Ends
from mirror.lane.progress import LaneProgress
from mirror.model.topics import TopicPartition
from mirror.protocol.batches.batch import scan


async def measured_loss(
    target: Cluster,
    places: Iterable[TopicPartition],
    lanes: Mapping[TopicPartition, LaneProgress],
    source_ends: Ends,
    log_ends: Ends,
) -> Loss:
    """Return how many records and seconds a failover to a cluster would lose. Raises Unreachable.

    `source_ends`: end offsets of the source that are newer than the stored ones. `log_ends`: end offsets of
    the target.
    """
    contact_ms = max((lane.version[1] for lane in lanes.values() if lane.version), default=0)
    seconds = {}
    for lost in loss_of(places, lanes, source_ends, log_ends, {}).partitions:
        place = TopicPartition(lost.topic, lost.partition)
        lane = lanes.get(place)
        if lost.most is None or lane is None:
            continue
        copied_ms = await _last_time_ms(target, place, lane.target_end)
        if copied_ms is not None:
            seconds[place] = max(contact_ms - copied_ms, 0) / 1000
    return loss_of(places, lanes, source_ends, log_ends, seconds)


async def _last_time_ms(target: Cluster, place: TopicPartition, end: int) -> int | None:
    """Return the maximum timestamp of the last batch before offset `end`; None if there is no such batch."""
    if end <= 0:
        return None
    try:
        part = await fetch_once(target, place, end - 1, committed=False)
    except HeadraceError as error:
        if error.retriable:
            raise
        return None  # retention has deleted the batch
    headers = [header for _, _, header in scan(part.records) if header is not None]
    return next((header.max_timestamp for header in headers if header.last_offset >= end - 1), None)
