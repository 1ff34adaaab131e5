"""Translates consumer group offsets between a source and its copy, in either direction.

Committed offsets are translated with the stored offset maps. A stored offset map ends at the last checkpoint.
Later offsets are translated to the end of the map, so a group may read records again but misses no record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

from mirror.client.cluster import Cluster
from mirror.errors import NotFound, Refused
from mirror.jobs.stored_lanes import StoredLanes, stored_to_translate
from mirror.lane.offset_map import Precision, Translation
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.codes import Code
from mirror.protocol.control.call import Call
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.groups import SHARE
from mirror.protocol.control.offsets import commit_offsets, committed_offsets
from mirror.protocol.control.share_groups import (
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
    alter_share_offsets,
    share_offsets,
)
from mirror.replication.context import EngineContext

NOT_MIRRORED: Final = "not mirrored"
NOTHING_YET: Final = "no progress is stored yet"
GONE: Final = "the destination topic was deleted, with its mirrored records"
AHEAD: Final = "the group is already ahead there"
UNCHANGED: Final = "unchanged"


@dataclass(frozen=True)
class TranslateJob:
    """Parameters of a translation of consumer group offsets.

    `state`: name of the copy, or group of the datastream. `back`: translate from the destination to the
    source. `as_group`: name of the group on the other cluster; empty for the same name. `rewinds`: also move
    offsets backward if the group is already ahead. `kind`: type of the group, empty if unknown; the positions
    of a share group are its start offsets.
    """

    state: str
    source: ClusterRef
    destination: ClusterRef
    group: str
    back: bool = False
    as_group: str = ""
    rewinds: bool = False
    kind: str = ""

    @property
    def sides(self) -> tuple[ClusterRef, ClusterRef]:
        """The cluster to translate from, and the cluster to translate to."""
        return (self.destination, self.source) if self.back else (self.source, self.destination)

    @property
    def target_group(self) -> str:
        """Group whose offsets are committed."""
        return self.as_group or self.group


@dataclass(frozen=True, slots=True)
class PositionMove:
    """A committed offset and its translation to the other cluster.

    `here`, `offset`: partition and offset on one cluster. `there`, `becomes`: partition and offset on the
    other cluster.

    `precision`: precision of the result, see `lane.offset_map`. `present`: current offset of the group on the
    other cluster. `skipped`: reason why the offset is not committed; `becomes` may then be -1. `behind`: the
    last checkpoint is before the offset, so a later checkpoint gives a more exact result.
    """

    origin: TopicPartition
    offset: int
    target: TopicPartition
    becomes: int
    precision: str = ""
    present: int | None = None
    skipped: str = ""
    behind: bool = False

    @property
    def is_translated(self) -> bool:
        """Return whether the committed offset could be translated."""
        return self.becomes >= 0

    @property
    def is_left_behind(self) -> bool:
        """Return whether the topic is mirrored, but the group would have no offset on the other cluster."""
        return not self.is_translated and (self.behind or self.skipped != NOT_MIRRORED)

    def to_json(self) -> dict[str, Any]:
        """Return the translation as a JSON object."""
        return {
            "topic": self.origin.topic,
            "partition": self.origin.partition,
            "offset": self.offset,
            "to_topic": self.target.topic,
            "becomes": self.becomes,
            "precision": self.precision,
            "present": self.present,
            "skipped": self.skipped,
            "behind": self.behind,
        }


class Translator:
    """Translates committed offsets between the clusters of a copy, using the stored progress.

    `back`: translate from the destination to the source.
    """

    def __init__(self, stored: StoredLanes, *, back: bool) -> None:
        self.stored = stored
        """Stored lanes whose offset maps are used."""
        self._back = back

    def move(self, place: TopicPartition, offset: int) -> PositionMove:
        """Translate the committed offset of a group in a partition."""
        key = self._keys.get(place)
        if key is None:
            skipped, behind = NOT_MIRRORED, place.topic in self._topics
            return PositionMove(place, offset, place, -1, skipped=skipped, behind=behind)
        return self.move_in(key, offset)

    def move_in(self, key: LaneKey, offset: int) -> PositionMove:
        """Translate the committed offset of a group in the partition of a lane. Raises KeyError for an
        unknown lane."""
        progress = self.stored.lanes[key]
        place, there = self._places(key, progress)
        if self.stored.is_current(progress) is False:
            return PositionMove(place, offset, there, -1, skipped=GONE)
        behind = not self._back and offset > progress.next_offset
        found = self._found(key, progress, offset)
        if found is None:
            return PositionMove(place, offset, there, -1, skipped=NOTHING_YET, behind=True)
        return PositionMove(
            place, offset, there, found.offset, Precision(found.precision).value, behind=behind
        )

    def _found(self, key: LaneKey, progress: LaneProgress, offset: int) -> Translation | None:
        """Translate an offset with the lane's offset map or its first copied record. Return None if
        unknown."""
        if len(progress.offset_map):
            look_up = progress.offset_map.backward if self._back else progress.offset_map.forward
            return look_up(offset)
        first = progress.next_offset if self._back else self.stored.first_offsets.get(key)
        return None if first is None else Translation(first, Precision.END)

    @cached_property
    def _topics(self) -> Set[str]:
        """Names of the mirrored topics on the cluster from which offsets are translated."""
        return {place.topic for place in self._keys}

    @cached_property
    def _keys(self) -> Mapping[TopicPartition, LaneKey]:
        """Map each partition on the cluster from which offsets are translated to its lane."""
        lanes = self.stored.lanes
        if not self._back:
            return {key.partition: key for key in lanes}
        return {self._places(key, progress)[0]: key for key, progress in lanes.items()}

    def _places(self, key: LaneKey, progress: LaneProgress) -> tuple[TopicPartition, TopicPartition]:
        """Return the lane's partition on the cluster to translate from, and that on the other cluster."""
        copy = TopicPartition(progress.target_topic or key.partition.topic, key.partition.partition)
        return (copy, key.partition) if self._back else (key.partition, copy)


class GroupPositions(NamedTuple):
    """Offsets that a group has committed: on the cluster to translate from, and on the other cluster."""

    origin: Mapping[TopicPartition, int]
    target: Mapping[TopicPartition, int]


async def group_positions(bench: EngineContext, job: TranslateJob) -> GroupPositions:
    """Read the committed offsets of a group from both clusters. Raises the errors of `committed_at`."""
    here, there = (bench.cluster(side) for side in job.sides)
    found = await bench.loop.together(
        [committed_at(here, job.group, job.kind), committed_at(there, job.target_group, job.kind)]
    )
    return GroupPositions(*found)


async def plan_translation(bench: EngineContext, job: TranslateJob) -> list[PositionMove]:
    """Return the translated offsets to commit. Raises InvalidRequest, NotAuthorized, Unreachable."""
    stored = await stored_to_translate(bench, job.source, job.destination, job.state)
    return moves_of(job, stored, await group_positions(bench, job))


def moves_of(job: TranslateJob, stored: StoredLanes, positions: GroupPositions) -> list[PositionMove]:
    """Return the translated offsets of a group to commit, sorted by partition.

    Raises NotFound for a group without committed offsets.

    `stored` must be read before `positions`, so that the stored progress can be behind the group's positions
    but never ahead.
    """
    if not positions.origin:
        raise NotFound(f"group {job.group} has no committed offsets on {job.sides[0]}")
    translator = Translator(stored, back=job.back)
    return [
        _beside(job, translator.move(place, offset), positions)
        for place, offset in sorted(positions.origin.items())
    ]


def _beside(job: TranslateJob, move: PositionMove, positions: GroupPositions) -> PositionMove:
    """Compare a translation with the offset that the group has already committed on the other cluster.

    The translation is skipped if this offset is equal or higher.
    """
    present = positions.target.get(move.target)
    if move.skipped or present is None:
        return move
    skipped = ""
    if present == move.becomes:
        skipped = UNCHANGED
    elif present > move.becomes and not job.rewinds:
        skipped = AHEAD
    return replace(move, present=present, skipped=skipped)


async def apply_translation(bench: EngineContext, job: TranslateJob, moves: Sequence[PositionMove]) -> int:
    """Commit the translated offsets of a group that are not skipped; return their number.

    Raises the errors of `commit_positions`.
    """
    offsets = {move.target: move.becomes for move in moves if not move.skipped}
    if not offsets:
        return 0
    await commit_positions(bench.cluster(job.sides[1]), job.target_group, offsets, job.kind)
    return len(offsets)


def position_commit(
    group: str, offsets: Mapping[TopicPartition, int], kind: str
) -> Call[Mapping[TopicPartition, int]]:
    """Build a request that commits offsets of a group without members, or sets the start offsets of a share
    group.

    The response contains an error code for each partition.
    """
    return alter_share_offsets(group, offsets) if kind == SHARE else commit_offsets(group, offsets)


async def commit_positions(
    cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], kind: str = ""
) -> None:
    """Commit offsets of a group without members, or set the start offsets of a share group.

    Raises Refused if the group has members or another type, or if the brokers ignore a start offset;
    NotAuthorized, Unreachable.
    """
    codes = await cluster.coordinators.ask(
        GROUP, group, position_commit(group, offsets, kind), lambda found: max(found.values(), default=0)
    )
    for place in offsets:
        code = codes.get(place)
        if code in (Code.UNKNOWN_MEMBER_ID, NON_EMPTY_GROUP):
            raise Refused(
                f"group {group} has active members on {cluster.name}",
                advice="stop its consumers there, or use another group with --as-group",
            )
        if code == GROUP_ID_NOT_FOUND:
            raise Refused(
                f"group {group} has another type on {cluster.name}", advice="rename one of the two groups"
            )
        if code is None:  # Kafka 4.1 ignores start offsets of a share group that does not exist
            raise Refused(
                f"{cluster.name} ignores the start offset of share group {group} in {place}",
                advice="upgrade its brokers, or exclude the group",
            )
        if code:
            doing = f"cannot commit an offset of {place} for group {group} on {cluster.name}"
            raise cluster.error(code, doing, f"Read on group {group} and on topic {place.topic}")


async def committed_at(cluster: Cluster, group: str, kind: str = "") -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, or the start offsets of a share group.

    Raises NotAuthorized, Unreachable; Refused if the brokers do not support share groups.
    """
    call = share_offsets(group) if kind == SHARE else committed_offsets(group, None)
    found = await cluster.coordinators.ask(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        right = f"Describe on group {group} and on its topics"
        raise cluster.error(found.error, f"cannot read the offsets of group {group}", right)
    for place, answer in found.offsets.items():
        if answer.error:
            right = f"Describe on group {group} and on topic {place.topic}"
            raise cluster.error(answer.error, f"cannot read the offset of group {group} in {place}", right)
    return {place: answer.offset for place, answer in found.offsets.items()}
