"""Stored progress of a copy or datastream, with the current state of both clusters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, NothingStored, Unreachable
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.reasons import reason_at
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.offsets import LATEST
from mirror.replication.context import EngineContext


async def stored_lanes(
    bench: EngineContext, destination: ClusterRef, state: str
) -> Mapping[LaneKey, LaneProgress]:
    """Return the stored progress of each lane.

    `state`: name under which the progress is stored. Raises NothingStored, Unreachable.
    """
    log = bench.progress(destination)
    await log.read_all()
    keys = log.keys_of(GroupName(state))
    found = await log.load(keys)
    lanes = {key: progress for key, progress in found.items() if progress is not None}
    if not lanes:
        known = ", ".join(sorted(log.groups())[:10])
        raise NothingStored(
            f"no progress is stored for {state} on {destination}",
            advice=f"stored: {known}" if known else "check that it is the destination of the copy",
        )
    return lanes


def _reason(pause: Mapping[str, Any]) -> str:
    return reason_at(str(pause["reason"]), pause.get("offset"))


def progress_document(key: LaneKey, progress: LaneProgress, *, with_map: bool) -> dict[str, Any]:
    """Return the JSON form of the stored progress of a lane. `with_map`: include the runs of its offset
    map."""
    document: dict[str, Any] = {
        "topic": key.partition.topic,
        "partition": key.partition.partition,
        "destination_topic": progress.target_topic,
        "start_offset": progress.ledger.start,
        "next_offset": progress.next_offset,
        "offsets": progress.ledger.by_class(),
        "is_balanced": progress.ledger.is_balanced,
        "map_runs": len(progress.offset_map),
        "life": progress.life,
        "paused": _reason(progress.pause) if progress.pause else "",
        "gaps": progress.gaps,
    }
    return document | ({"offset_map": [tuple(run) for run in progress.offset_map]} if with_map else {})


@dataclass(frozen=True)
class StoredLanes:
    """Stored progress of the lanes of a copy, and the current ids of their destination topics.

    `topic_ids`: None for a missing topic; topics with an unknown id have no entry. `first_offsets`: for each
    lane that has copied no record yet, a lower bound of the destination offset of its first record.
    `source_error`: error of reading the end offsets of the source.
    """

    lanes: Mapping[LaneKey, LaneProgress]
    topic_ids: Mapping[str, bytes | None]
    first_offsets: Mapping[LaneKey, int] = field(default_factory=dict)
    source_error: Unreachable | None = None

    def is_current(self, progress: LaneProgress) -> bool | None:
        """Return whether the destination topic of a lane is still the one it copied to; None if unknown."""
        if progress.target_topic not in self.topic_ids:
            return None
        now = self.topic_ids[progress.target_topic]
        if now is None:
            return False
        return now == progress.target_id if now and progress.target_id else None


async def stored_and_current(bench: EngineContext, destination: ClusterRef, state: str) -> StoredLanes:
    """Return the stored lanes with the current ids of the destination topics. Raises the errors of
    `stored_lanes`."""
    lanes = await stored_lanes(bench, destination, state)
    names = {lane.target_topic for lane in lanes.values()}
    return StoredLanes(lanes, await current_ids(bench.cluster(destination), names))


async def current_ids(cluster: Cluster, names: Set[str]) -> Mapping[str, bytes | None]:
    """Map the names of topics to their current ids.

    The id of a missing topic is None. A topic with an unknown id has no entry.
    """
    ids: dict[str, bytes | None] = {}
    try:
        await cluster.refresh(names)
    except HeadraceError:
        return ids
    for name, topic in ((name, cluster.topics[name]) for name in names if name in cluster.topics):
        if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            ids[name] = None
        elif not topic.error:
            ids[name] = cluster.topic_id(name)
    return ids


async def stored_to_translate(
    bench: EngineContext, source: ClusterRef, destination: ClusterRef, state: str
) -> StoredLanes:
    """Return the stored lanes. Adds lower bounds for lanes that have not copied a record yet.

    The function reads the end offsets of the destination, then those of the source, and then the checkpoints
    again. If a lane has reached the end of the source without copying a record, the destination had no record
    of it when its end offset was read.
    """
    stored = await stored_and_current(bench, destination, state)
    empty = {
        key: lane for key, lane in stored.lanes.items() if lane.target_topic and not len(lane.offset_map)
    }
    if not empty:
        return stored
    copies = {
        key: TopicPartition(progress.target_topic, key.partition.partition) for key, progress in empty.items()
    }
    try:
        there = await _ends(bench.cluster(destination), copies.values())
    except HeadraceError:
        return stored
    try:
        here = await _ends(bench.cluster(source), (key.partition for key in empty))
    except HeadraceError as error:
        return replace(stored, source_error=error if isinstance(error, Unreachable) else None)
    stored = await stored_and_current(bench, destination, state)
    first = {
        key: there[copy]
        for key, copy in copies.items()
        if (progress := stored.lanes.get(key)) is not None
        and not len(progress.offset_map)
        and copy in there
        and progress.next_offset >= here.get(key.partition, math.inf)
    }
    return replace(stored, first_offsets=first)


async def _ends(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Map partitions to their end offsets. Omits unavailable partitions. Raises Unreachable."""
    answers = await cluster.offsets(dict.fromkeys(places, LATEST))
    return {place: answer.offset for place, answer in answers.items() if not answer.error}
