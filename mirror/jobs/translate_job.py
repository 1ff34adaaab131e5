"""Moving consumer groups between a source and its copy, exactly, in either direction.

A group's committed positions go through the stored offset maps of the lanes. A stored map is as old as the
last checkpoint: a position beyond it becomes the end of the map, so that a group may read a little again
and never misses anything.
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
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control.cluster import GROUP
from mirror.protocol.control.offsets import commit_offsets, committed_offsets
from mirror.replication.context import EngineContext

NOT_MIRRORED: Final = "not mirrored"
NOTHING_YET: Final = "nothing of it is stored yet"
GONE: Final = "the destination topic was deleted since, with what was mirrored"
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
    def sides(self) -> tuple[ClusterRef, ClusterRef]:
        """Where the group is, and where it goes."""
        return (self.destination, self.source) if self.back else (self.source, self.destination)

    @property
    def target_group(self) -> str:
        """The group whose positions are set."""
        return self.as_group or self.group


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One partition of the group: from `here` at `offset` to `there` at `becomes`.

    `precision` is that of `lane.offset_map`; `present` the position that the group has there already.
    `skipped` says why the position is not set; then `becomes` may be -1. `behind`: the stored progress of the
    mirrored topic has not reached the offset, so a later checkpoint gives a better answer.
    """

    here: TopicPartition
    offset: int
    there: TopicPartition
    becomes: int
    precision: str = ""
    present: int | None = None
    skipped: str = ""
    behind: bool = False

    @property
    def is_translated(self) -> bool:
        """Whether `becomes` is an offset."""
        return self.becomes >= 0

    @property
    def is_left_behind(self) -> bool:
        """Whether the group would begin at its partition there as a consumer without a position does, though
        its topic is mirrored."""
        return not self.is_translated and (self.behind or self.skipped != NOT_MIRRORED)

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
            "behind": self.behind,
        }


class Translator:
    """Offsets of one side of a copy on the other side, as far as it is stored. `back`: from the destination
    to the source."""

    def __init__(self, stored: StoredLanes, *, back: bool) -> None:
        self._stored = stored
        self._back = back

    def move(self, place: TopicPartition, offset: int) -> PositionMove:
        """Where a group that would next read `offset` goes on at the other side."""
        lane = self._lanes.get(place)
        if lane is None:
            skipped, behind = NOT_MIRRORED, place.topic in self._topics
            return PositionMove(place, offset, place, -1, skipped=skipped, behind=behind)
        there, progress = self._places(*lane)[1], lane[1]
        if self._stored.is_current(progress) is False:
            return PositionMove(place, offset, there, -1, skipped=GONE)
        behind = not self._back and offset > progress.next_offset
        found = self._found(lane[0], progress, offset)
        if found is None:
            return PositionMove(place, offset, there, -1, skipped=NOTHING_YET, behind=True)
        return PositionMove(
            place, offset, there, found.offset, Precision(found.precision).value, behind=behind
        )

    def _found(self, key: LaneKey, progress: LaneProgress, offset: int) -> Translation | None:
        """The offset by what is stored of its lane, or of what will be mirrored first; None: not known."""
        if len(progress.offset_map):
            look_up = progress.offset_map.backward if self._back else progress.offset_map.forward
            return look_up(offset)
        first = progress.next_offset if self._back else self._stored.first_offsets.get(key)
        return None if first is None else Translation(first, Precision.END)

    @cached_property
    def _topics(self) -> Set[str]:
        """Names of mirrored topics on the side that offsets are given of."""
        return {place.topic for place in self._lanes}

    @cached_property
    def _lanes(self) -> Mapping[TopicPartition, tuple[LaneKey, LaneProgress]]:
        """By their partition on the side that offsets are given of."""
        return {self._places(*lane)[0]: lane for lane in self._stored.lanes.items()}

    def _places(self, key: LaneKey, progress: LaneProgress) -> tuple[TopicPartition, TopicPartition]:
        """(where the offsets are, where they go) of one lane."""
        copy = TopicPartition(progress.target_topic or key.partition.topic, key.partition.partition)
        return (copy, key.partition) if self._back else (key.partition, copy)


class GroupPositions(NamedTuple):
    """What a group has committed: where it is, and where it goes."""

    here: Mapping[TopicPartition, int]
    there: Mapping[TopicPartition, int]


async def group_positions(bench: EngineContext, job: TranslateJob) -> GroupPositions:
    """What the clusters say of the group. Raises NotAuthorized, Unreachable."""
    here, there = (bench.cluster(one) for one in job.sides)
    found = await bench.loop.together([committed_at(here, job.group), committed_at(there, job.target_group)])
    return GroupPositions(*found)


async def plan_translation(bench: EngineContext, job: TranslateJob) -> list[PositionMove]:
    """What would be committed. Raises InvalidRequest, NotAuthorized, Unreachable."""
    stored = await stored_to_translate(bench, job.source, job.destination, job.state)
    return moves_of(job, stored, await group_positions(bench, job))


def moves_of(job: TranslateJob, stored: StoredLanes, positions: GroupPositions) -> list[PositionMove]:
    """What would be committed, in order. Raises NotFound for a group that has committed nothing.

    `stored` was read before `positions`: then what is beyond it is behind the group, never ahead.
    """
    if not positions.here:
        raise NotFound(f"group {job.group} has committed nothing on {job.sides[0]}")
    translator = Translator(stored, back=job.back)
    return [
        _beside(job, translator.move(place, offset), positions)
        for place, offset in sorted(positions.here.items())
    ]


def _beside(job: TranslateJob, move: PositionMove, positions: GroupPositions) -> PositionMove:
    """With what the group has there already."""
    present = positions.there.get(move.there)
    if move.skipped or present is None:
        return move
    skipped = ""
    if present == move.becomes:
        skipped = UNCHANGED
    elif present > move.becomes and not job.rewinds:
        skipped = AHEAD
    return replace(move, present=present, skipped=skipped)


async def apply_translation(bench: EngineContext, job: TranslateJob, moves: Sequence[PositionMove]) -> int:
    """Commit what is not skipped; returns how many positions were set.

    Raises Refused when the group has members there, NotAuthorized, Unreachable.
    """
    offsets = {move.there: move.becomes for move in moves if not move.skipped}
    if not offsets:
        return 0
    there, group = bench.cluster(job.sides[1]), job.target_group
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


async def committed_at(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    """All positions of a group on one cluster. Raises NotAuthorized, Unreachable."""
    call = committed_offsets(group, None)
    found = await cluster.ask_coordinator(GROUP, group, call, lambda answer: answer.worst)
    if found.error:
        raise error_of(found.error, f"reading the positions of group {group}")
    for place, answer in found.offsets.items():
        if answer.error:
            raise error_of(answer.error, f"reading the positions of group {group} ({place})")
    return {place: answer.offset for place, answer in found.offsets.items()}
