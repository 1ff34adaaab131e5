"""/v1/datastreams/{name}/translation and /consumer-groups: translated offsets, and groups whose offsets are
copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Literal, TypeAlias

from fastapi import APIRouter, Depends, Path, Query, Request

from api.access.gate import principal_of
from api.access.rights import Action, Principal, reason_against
from api.fleet.dependencies import NamePath, ReadsDep, ServicesDep, SlowCallsDep
from api.fleet.reads import Reads
from api.http.problems import AnswerModel, problems
from api.http.slow_calls import CallersSlowCalls
from api.resources.partitions.progress import lanes_of
from api.services import Services
from mirror.errors import Forbidden, NotFound, NothingStored
from mirror.jobs.groups.decision import FollowReason
from mirror.jobs.groups.record import FollowedGroup, GroupKeys, StoredGroups
from mirror.jobs.stored_lanes import StoredLanes
from mirror.jobs.translate_job import (
    NOT_MIRRORED,
    NOTHING_YET,
    GroupPositions,
    PositionMove,
    TranslateJob,
    Translator,
    moves_of,
)
from mirror.lane.offset_map import Precision
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.topics import LEGAL_TOPIC, TopicPartition

router = APIRouter(prefix="/v1/datastreams", tags=["datastreams"], responses=problems(404, 409))


TO_SOURCE = "to-source"
Direction: TypeAlias = Literal["to-destination", "to-source"]


class _TranslationModel(AnswerModel):
    topic: str
    """Topic to which the offset belongs: the source topic or, for to-source, the destination topic."""
    partition: int
    offset: int


class OffsetTranslation(_TranslationModel):
    """Translation of a consumer's position: the offset on the other cluster that corresponds to `offset`.

    The translation comes from the last stored offset map.
    """

    to_topic: str
    to_partition: int
    to_offset: int
    precision: Precision
    """Precision of the position. `exact`: the same record. `next`: the offset has no record, and the position
    is the position of the next record. `end`: the offset is after the mirrored records, and the position is
    their end. `before`: the offset is before the first known offset, whose position is returned."""

    @classmethod
    def from_move(cls, move: PositionMove) -> OffsetTranslation:
        """Return a translated offset as a response."""
        return cls(**_counterpart(move))


class GroupPosition(OffsetTranslation):
    """Committed offset of a consumer group, and the corresponding offset on the other cluster."""

    present: int | None
    """Offset that the group has already committed on the other cluster; null if it has committed none."""
    left_alone: str
    """Reason why `headrace translate` would not commit the position: the position is already committed, or
    the group is ahead. Empty if the command would commit the position."""

    @classmethod
    def from_move(cls, move: PositionMove) -> GroupPosition:
        """Return the translated offset of a group as a response."""
        return cls(**_counterpart(move), present=move.present, left_alone=move.skipped)


def _counterpart(move: PositionMove) -> dict[str, Any]:
    """Return the response fields of a committed position and its translation to the other cluster."""
    return {
        "topic": move.origin.topic,
        "partition": move.origin.partition,
        "offset": move.offset,
        "to_topic": move.target.topic,
        "to_partition": move.target.partition,
        "to_offset": move.becomes,
        "precision": Precision(move.precision),
    }


class UntranslatedPosition(_TranslationModel):
    """Committed position that cannot be translated."""

    reason: str
    """Reason: the datastream does not mirror the partition, no progress is stored yet, or the destination
    topic was deleted since."""

    @classmethod
    def from_move(cls, move: PositionMove) -> UntranslatedPosition:
        """Return a position that could not be translated as a response."""
        return cls(
            topic=move.origin.topic, partition=move.origin.partition, offset=move.offset, reason=move.skipped
        )


class GroupTranslation(AnswerModel):
    """All committed offsets of a consumer group on one cluster, translated to the other cluster.

    The request commits nothing; `headrace translate` commits the translated offsets.
    """

    name: str
    group: str
    direction: Direction
    positions: list[GroupPosition]
    untranslated: list[UntranslatedPosition]

    @classmethod
    def from_moves(
        cls, name: str, group: str, direction: Direction, moves: Iterable[PositionMove]
    ) -> GroupTranslation:
        """Return the translated positions of a group as a response, in the order of the moves."""
        known, unknown = [], []
        for move in moves:
            if move.is_translated:
                known.append(GroupPosition.from_move(move))
            else:
                unknown.append(UntranslatedPosition.from_move(move))
        return cls(name=name, group=group, direction=direction, positions=known, untranslated=unknown)


class FollowedPositionAnswer(_TranslationModel):
    """Committed position of a consumer group in a source partition, at the last synchronisation."""

    to_topic: str
    to_offset: int | None
    """Position at the destination; null: none."""
    follows: bool
    """True if the destination has this position."""
    reason: FollowReason
    is_exact: bool
    """False: `to_offset` is a lower bound until the mirrored records reach `offset`."""


class FollowedGroupAnswer(AnswerModel):
    """State of a consumer group of a datastream at the last synchronisation of its offsets."""

    group: str
    kind: str
    """Type of the group: classic, consumer, streams or share; empty if unknown."""
    follows: bool
    reasons: list[FollowReason]
    """Reasons for positions that do not follow."""
    may_redeliver: bool
    """True for a share group: it may receive records after its position again, even those that it has
    acknowledged at the source."""
    detail: str
    """Error message, if a cluster rejected a request."""
    changed_ms: int | None
    """Last change of this state; null: no stored state."""
    positions: list[FollowedPositionAnswer]

    @classmethod
    def from_group(cls, group: FollowedGroup) -> FollowedGroupAnswer:
        """Return the stored state of a consumer group as a response."""
        reasons = list(group.hindrances)
        positions = [
            FollowedPositionAnswer(
                topic=place.topic,
                partition=place.partition,
                offset=position.source,
                to_topic=position.copy.topic,
                to_offset=position.target,
                follows=group.reason is None and position.follows,
                reason=group.reason or position.reason,
                is_exact=position.is_exact,
            )
            for place, position in sorted(group.positions.items())
        ]
        return cls(
            group=group.group,
            kind=group.kind,
            follows=not reasons,
            reasons=reasons,
            may_redeliver=group.may_redeliver,
            detail=group.detail,
            changed_ms=group.changed_ms or None,
            positions=positions,
        )


class FollowedGroups(AnswerModel):
    """Consumer groups whose offsets are translated to the destination, sorted by name.

    `round_ms`: last time at which all groups were synchronised, null if never. `age_ms`: time since
    `round_ms`. `unreadable`: number of damaged records.
    """

    name: str
    round_ms: int | None
    age_ms: int | None
    unreadable: int
    groups: list[FollowedGroupAnswer]


LONGEST_GROUP: Final = 8_191
"""Number of characters that always fit into the 32,767 bytes of a string in Kafka's protocol."""


@dataclass(frozen=True)
class _StreamTranslation:
    """Translation of one datastream's offsets in one direction."""

    name: str
    services: Services
    reads: Reads
    slow_calls: CallersSlowCalls
    direction: Direction
    principal: Principal

    @property
    def back(self) -> bool:
        """True to translate from the destination to the source."""
        return self.direction == TO_SOURCE

    def datastream(self) -> Datastream:
        """Return the datastream whose offsets are translated. Raises NotFound, DamagedState."""
        return self.reads.stored(DatastreamName(self.name)).datastream

    def hidden(self, group: str, datastream: Datastream) -> str:
        """Return the reason if the caller may not read the offsets of a consumer group, otherwise empty."""
        hidden = self.services.control.hides_group(group, datastream)
        return hidden if hidden and reason_against(self.principal, Action.READ_GROUPS) else ""

    def followed(self, datastream: Datastream) -> StoredGroups:
        """Return the stored state of the consumer groups that the caller is permitted to see."""
        keys = GroupKeys(datastream.group, datastream.name)
        found = self.services.followed_groups(datastream.destination, keys)
        groups = {
            name: group for name, group in sorted(found.groups.items()) if not self.hidden(name, datastream)
        }
        return found._replace(groups=groups)

    def positions_of(self, group: str, datastream: Datastream) -> GroupPositions:
        """Return the positions of a group in topics of the datastream. Raises Forbidden, NotFound,
        Unreachable."""
        hidden = self.hidden(group, datastream)
        if hidden:
            raise Forbidden(hidden, advice="an operator can read it, or add it to groups of [clusters.NAME]")
        here, there = self.services.group_positions(self.job_of(group, datastream))
        return GroupPositions(
            {place: offset for place, offset in here.items() if self._is_of(datastream, place.topic)}, there
        )

    def job_of(self, group: str, datastream: Datastream) -> TranslateJob:
        """Return the job that reads the positions of a group and translates them."""
        return TranslateJob(
            datastream.group, datastream.source, datastream.destination, group, back=self.back
        )

    def _is_of(self, datastream: Datastream, topic: str) -> bool:
        """Return whether the datastream mirrors a topic. `topic`: its name on the cluster of the group."""
        source = datastream.naming.source(topic) if self.back else topic
        return source is not None and datastream.selection.matches(source)

    def stored(self, datastream: Datastream) -> StoredLanes:
        """Return the stored progress of the datastream's lanes; empty if nothing is stored."""
        try:
            found = self.services.progress_to_translate(
                datastream.source, datastream.destination, datastream.group
            )
        except NothingStored:
            return StoredLanes({}, {})
        return lanes_of(datastream, found)

    def named(self, datastream: Datastream, moves: Sequence[PositionMove]) -> list[PositionMove]:
        """Correct the reasons for untranslated offsets of partitions that are mirrored but have no progress
        yet.

        A partition with a task but without stored progress is mirrored, although nothing is stored yet.
        """
        is_any_unknown = any(move.skipped == NOT_MIRRORED for move in moves)
        planned = self._planned(datastream) if is_any_unknown else frozenset()
        return [
            replace(move, skipped=NOTHING_YET)
            if move.skipped == NOT_MIRRORED and move.origin in planned
            else move
            for move in moves
        ]

    def _planned(self, datastream: Datastream) -> Set[TopicPartition]:
        """Return the partitions of a datastream that have a task, with topic names of the group's cluster."""
        plan = self.reads.plan()
        mine = (
            partition
            for partition in plan.planned.get(datastream.group, frozenset())
            if datastream.selection.matches(partition.topic)
            and not plan.excludes(datastream.name, partition.topic)
        )
        naming = datastream.naming
        return {naming.copy_of(partition) if self.back else partition for partition in mine}


async def _translation(
    request: Request,
    name: NamePath,
    services: ServicesDep,
    reads: ReadsDep,
    slow_calls: SlowCallsDep,
    direction: Annotated[
        Direction, Query(description="direction: from source offsets, or from destination offsets")
    ] = "to-destination",
) -> _StreamTranslation:
    return _StreamTranslation(name, services, reads, slow_calls, direction, principal_of(request))


TranslationDep = Annotated[_StreamTranslation, Depends(_translation)]


@router.get("/{name}/translation")
async def translation(
    topic: Annotated[
        str, Query(pattern=f"^{LEGAL_TOPIC}$", description="source topic; for to-source, destination topic")
    ],
    partition: Annotated[int, Query(ge=0, le=bounds.LARGEST_PARTITION, description="partition number")],
    offset: Annotated[int, Query(ge=0, le=bounds.LARGEST_OFFSET, description="next offset to read")],
    translations: TranslationDep,
) -> OffsetTranslation:
    """Translate one offset to the other cluster, with the last stored progress of its partition.

    The response is 404 if the datastream does not mirror the partition, and 409 if the partition has no
    stored progress yet or the destination topic was deleted since.
    """
    place = TopicPartition(topic, partition)

    def translate() -> OffsetTranslation:
        datastream = translations.datastream()
        found = Translator(translations.stored(datastream), back=translations.back).move(place, offset)
        (move,) = translations.named(datastream, [found])
        if move.skipped == NOT_MIRRORED:
            raise NotFound(f"{place} is not mirrored by datastream {datastream.name}")
        if not move.is_translated:
            raise NothingStored(
                f"{place} cannot be translated: {move.skipped}",
                advice="retry once records of the partition have been mirrored",
            )
        return OffsetTranslation.from_move(move)

    return await translations.slow_calls.run(translate)


@router.get("/{name}/translation/groups/{group:path}")
async def group_translation(
    group: Annotated[
        str, Path(min_length=1, max_length=LONGEST_GROUP, description="name of the consumer group")
    ],
    translations: TranslationDep,
) -> GroupTranslation:
    """Translate all committed offsets of a consumer group to the other cluster.

    Only topics of the datastream are included. The request commits nothing on either cluster. The response is
    403 for a group that is not in `groups` of a cluster, unless the caller is an operator, and 404 if the
    group has committed nothing.
    """

    def translate() -> GroupTranslation:
        datastream = translations.datastream()
        stored = translations.stored(datastream)
        positions = translations.positions_of(group, datastream)
        moves = moves_of(translations.job_of(group, datastream), stored, positions)
        named = translations.named(datastream, moves)
        return GroupTranslation.from_moves(datastream.name, group, translations.direction, named)

    return await translations.slow_calls.run(translate)


@router.get("/{name}/consumer-groups")
async def followed_groups(translations: TranslationDep) -> FollowedGroups:
    """List the consumer groups whose offsets are copied to the destination, and the reason for each that is
    not. The response contains the state stored at the destination, so the source need not be available."""

    def read() -> FollowedGroups:
        datastream = translations.datastream()
        found, now_ms = translations.followed(datastream), translations.services.clock.now_ms()
        selects = datastream.following_groups.selects
        return FollowedGroups(
            name=datastream.name,
            round_ms=found.round_ms,
            age_ms=None if found.round_ms is None else max(now_ms - found.round_ms, 0),
            unreadable=found.damaged,
            groups=[
                FollowedGroupAnswer.from_group(group) for name, group in found.groups.items() if selects(name)
            ],
        )

    return await translations.slow_calls.run(read)


@router.get("/{name}/consumer-groups/{group:path}")
async def followed_group(
    group: Annotated[str, Path(min_length=1, max_length=LONGEST_GROUP, description="consumer group")],
    translations: TranslationDep,
) -> FollowedGroupAnswer:
    """Explain whether the offsets of a consumer group are translated to the destination.

    403 for a group missing from `groups` of a cluster, unless the caller is an operator; 404 if a selected
    group has no stored state: it has no offsets in topics of the datastream, or no synchronisation has ended
    yet.
    """

    def read() -> FollowedGroupAnswer:
        datastream = translations.datastream()
        if hidden := translations.hidden(group, datastream):
            raise Forbidden(hidden, advice="an operator can add it to groups of [clusters.NAME]")
        found = translations.followed(datastream).groups.get(group)
        if not datastream.following_groups.selects(group):
            found = FollowedGroup(group, reason=FollowReason.EXCLUDED)
        elif translations.services.control.hides_group(group, datastream):
            found = FollowedGroup(group, reason=FollowReason.NOT_ALLOWED)
        if found is None:
            raise NotFound(
                f"consumer group {bounds.shown(group)} has no stored state for {datastream.name}",
                advice="check that it has committed positions in topics of the datastream",
            )
        return FollowedGroupAnswer.from_group(found)

    return await translations.slow_calls.run(read)
