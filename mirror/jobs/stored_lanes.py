"""What a copy or a datastream has stored of its lanes, beside what its clusters say now."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, NothingStored, Unreachable
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.offsets import LATEST
from mirror.replication.context import EngineContext


async def stored_lanes(
    bench: EngineContext, destination: ClusterRef, state: str
) -> Mapping[LaneKey, LaneProgress]:
    """Everything that a state has stored. Raises NothingStored, Unreachable."""
    log = bench.progress(destination)
    await log.read_all()
    keys = log.keys_of(GroupName(state))
    found = await log.load(keys)
    lanes = {key: progress for key, progress in found.items() if progress is not None}
    if not lanes:
        known = ", ".join(sorted(log.groups())[:10])
        raise NothingStored(
            f"nothing is stored under {state} on {destination}",
            advice=f"there is {known}" if known else "is it the destination of the copy?",
        )
    return lanes


@dataclass(frozen=True)
class StoredLanes:
    """What a state has stored, and the ids of its destination topics now: None for one that is not there;
    one of which nothing was heard is missing. `first_offsets`: where at the destination the first record of a
    lane will lie at the earliest that has mirrored nothing, as far as it was asked and is known.
    `source_error`: why the source was asked for that and did not answer."""

    lanes: Mapping[LaneKey, LaneProgress]
    topic_ids: Mapping[str, bytes | None]
    first_offsets: Mapping[LaneKey, int] = field(default_factory=dict)
    source_error: Unreachable | None = None

    def is_current(self, progress: LaneProgress) -> bool | None:
        """Whether it is about the topic that is at the destination now; None: that is not known."""
        if progress.target_topic not in self.topic_ids:
            return None
        now = self.topic_ids[progress.target_topic]
        if now is None:
            return False
        return now == progress.target_id if now and progress.target_id else None


async def stored_and_current(bench: EngineContext, destination: ClusterRef, state: str) -> StoredLanes:
    """As `stored_lanes`, with a look at the destination's topics."""
    lanes = await stored_lanes(bench, destination, state)
    cluster, names = bench.cluster(destination), {one.target_topic for one in lanes.values()}
    try:
        await cluster.refresh(names)
    except HeadraceError:
        return StoredLanes(lanes, {})
    ids: dict[str, bytes | None] = {}
    for name, topic in ((name, cluster.topics[name]) for name in names if name in cluster.topics):
        if topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION:
            ids[name] = None
        elif not topic.error:
            ids[name] = cluster.topic_id(name)
    return StoredLanes(lanes, ids)


async def stored_to_translate(
    bench: EngineContext, source: ClusterRef, destination: ClusterRef, state: str
) -> StoredLanes:
    """As `stored_and_current`, with the first offsets of lanes that have mirrored nothing.

    Their partitions' ends are asked of the destination, then of the source, and then the checkpoints once
    more: of a lane whose checkpoint is at the source's end, and which still has mirrored nothing, nothing lay
    at the destination when its end was asked for.
    """
    stored = await stored_and_current(bench, destination, state)
    empty = {key: one for key, one in stored.lanes.items() if one.target_topic and not len(one.offset_map)}
    if not empty:
        return stored
    copies = {key: TopicPartition(one.target_topic, key.partition.partition) for key, one in empty.items()}
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
        if (one := stored.lanes.get(key)) is not None
        and not len(one.offset_map)
        and copy in there
        and one.next_offset >= here.get(key.partition, math.inf)
    }
    return replace(stored, first_offsets=first)


async def _ends(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Log ends; partitions that have none now are missing. Raises Unreachable."""
    answers = await cluster.offsets(dict.fromkeys(places, LATEST))
    return {place: answer.offset for place, answer in answers.items() if not answer.error}
