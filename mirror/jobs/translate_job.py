"""Moving consumer groups between a source and its copy, exactly, in either direction.

A group's committed positions go through the stored offset maps of the lanes. A stored map is as old as the
last checkpoint: a position beyond it becomes the end of the map, so that a group may read a little again
and never misses anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError, InvalidRequest, Refused
from mirror.lane.offset_map import Precision
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import commit_offsets, committed_offsets
from mirror.replication.context import EngineContext

NOT_MIRRORED: Final = "not mirrored"
AHEAD: Final = "the group is ahead there"
UNCHANGED: Final = "as it is"


@dataclass(frozen=True)
class TranslateJob:
    """Which group goes where. `state`: the copy's, or a datastream's group. `back`: from the destination
    to the source. `as_group`: its name on the other side, empty for the same. `rewinds`: also moves a
    group back that is ahead on the other side already."""

    state: str
    source: ClusterRef
    destination: ClusterRef
    group: str
    back: bool = False
    as_group: str = ""
    rewinds: bool = False

    @property
    def target_group(self) -> str:
        """The group whose positions are set."""
        return self.as_group or self.group


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One partition of the group: from `here` at `offset` to `there` at `becomes`.

    `precision` is that of `lane.offset_map`; `present` the position that the group has there already.
    `skipped` says why the position is not set; then `becomes` may be -1.
    """

    here: TopicPartition
    offset: int
    there: TopicPartition
    becomes: int
    precision: str = ""
    present: int | None = None
    skipped: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "topic": self.here.topic,
            "partition": self.here.partition,
            "offset": self.offset,
            "to_topic": self.there.topic,
            "becomes": self.becomes,
            "precision": self.precision,
            "present": self.present,
            "skipped": self.skipped,
        }


async def stored_lanes(
    bench: EngineContext, destination: ClusterRef, state: str
) -> Mapping[LaneKey, LaneProgress]:
    """Everything that a state has stored. Raises InvalidRequest when it is nothing, Unreachable."""
    log = bench.progress(destination)
    await log.read_all()
    keys = log.keys_of(GroupName(state))
    found = await log.load(keys)
    lanes = {key: progress for key, progress in found.items() if progress is not None}
    if not lanes:
        known = ", ".join(sorted(log.groups())[:10])
        raise InvalidRequest(
            f"nothing is stored under {state} on {destination}",
            advice=f"there is {known}" if known else "is it the destination of the copy?",
        )
    return lanes


@dataclass(frozen=True)
class StoredLanes:
    """What a state has stored, and the ids of its destination topics now: None for one that is not there;
    one of which nothing was heard is missing."""

    lanes: Mapping[LaneKey, LaneProgress]
    topic_ids: Mapping[str, bytes | None]

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


async def plan_translation(bench: EngineContext, job: TranslateJob) -> list[PositionMove]:
    """What would be committed. Raises InvalidRequest, NotAuthorized, Unreachable."""
    lanes = await stored_lanes(bench, job.destination, job.state)
    here, there = _clusters(bench, job)
    committed = await _committed(here, job.group)
    if not committed:
        raise InvalidRequest(f"group {job.group} has committed nothing on {here.name}")
    present = await _committed(there, job.target_group)
    by_place = {_places(job, key, progress)[0]: (key, progress) for key, progress in lanes.items()}
    moves = []
    for place, offset in sorted(committed.items()):
        lane = by_place.get(place)
        if lane is None:
            moves.append(PositionMove(place, offset, place, -1, skipped=NOT_MIRRORED))
        else:
            moves.append(_move(job, place, offset, lane, present))
    return moves


def _move(
    job: TranslateJob,
    place: TopicPartition,
    offset: int,
    lane: tuple[LaneKey, LaneProgress],
    present: Mapping[TopicPartition, int],
) -> PositionMove:
    there = _places(job, *lane)[1]
    offset_map = lane[1].offset_map
    if not len(offset_map):
        return PositionMove(place, offset, there, -1, skipped=NOT_MIRRORED)
    found = offset_map.backward(offset) if job.back else offset_map.forward(offset)
    before = present.get(there)
    skipped = ""
    if before == found.offset:
        skipped = UNCHANGED
    elif before is not None and before > found.offset and not job.rewinds:
        skipped = AHEAD
    return PositionMove(place, offset, there, found.offset, Precision(found.precision).value, before, skipped)


async def apply_translation(bench: EngineContext, job: TranslateJob, moves: Sequence[PositionMove]) -> int:
    """Commit what is not skipped; returns how many positions were set.

    Raises Refused when the group has members there, NotAuthorized, Unreachable.
    """
    offsets = {move.there: move.becomes for move in moves if not move.skipped}
    if not offsets:
        return 0
    there, group = _clusters(bench, job)[1], job.target_group
    codes = await there.ask_coordinator(
        GROUP, group, commit_offsets(group, offsets), lambda found: max(found.values(), default=0)
    )
    for place, code in codes.items():
        if code == Code.UNKNOWN_MEMBER_ID:
            raise Refused(
                f"group {group} has members on {there.name} and keeps its own positions",
                advice="stop its consumers there, or choose another name with --as-group",
            )
        if code:
            raise error_of(code, f"committing {place} for group {group} on {there.name}")
    return len(offsets)


def _clusters(bench: EngineContext, job: TranslateJob) -> tuple[Cluster, Cluster]:
    """(where the group is, where it goes)."""
    source, destination = bench.cluster(job.source), bench.cluster(job.destination)
    return (destination, source) if job.back else (source, destination)


def _places(job: TranslateJob, key: LaneKey, progress: LaneProgress) -> tuple[TopicPartition, TopicPartition]:
    """(where the group is, where it goes) of one lane."""
    copy = TopicPartition(progress.target_topic or key.partition.topic, key.partition.partition)
    return (copy, key.partition) if job.back else (key.partition, copy)


async def _committed(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    call = committed_offsets(group, None)
    found = await cluster.ask_coordinator(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        raise error_of(found.error, f"reading the positions of group {group}")
    for place, answer in found.offsets.items():
        if answer.error:
            raise error_of(answer.error, f"reading the positions of group {group} ({place})")
    return {place: answer.offset for place, answer in found.offsets.items()}
