"""Progress of lanes, and translation of offsets between source and destination, on /v1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from mirror.instance.uncopied.watch import UncopiedLane
from mirror.jobs.translate_job import PositionMove
from mirror.lane.offset_map import Precision
from mirror.lane.progress import LaneProgress
from mirror.model.datastreams.lanes import LaneKey
from mirror.model.topics import TopicPartition

TO_SOURCE = "to-source"
Direction: TypeAlias = Literal["to-destination", "to-source"]


class NotCopied(BaseModel):
    """State of all uncopied offsets after a checkpoint. Unknown numbers are null; only the leader knows
    them."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    state: str
    """paused, unplaced, left out"""
    reason: str
    requested_by: str
    since_ms: int | None
    offsets: int | None
    """Number of these offsets."""
    retained: int | None
    """Records that retention can still delete before it reaches the first of these offsets."""
    lost: int | None
    """Records among them that retention has deleted."""

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane) -> NotCopied:
        """Return the JSON form."""
        what = lane.what
        return cls(
            state=what.state,
            reason=what.reason,
            requested_by=what.requested_by,
            since_ms=what.since_ms,
            offsets=lane.lag_records,
            retained=lane.retained_records,
            lost=lane.lost_records,
        )


class LaneProgressAnswer(BaseModel):
    """Last stored progress of one partition; docs/data-plane/offsets.md explains the classes of `offsets`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    topic: str
    partition: int
    destination_topic: str
    start_offset: int | None
    """Offset at which the ledger starts; null: no stored progress."""
    next_offset: int | None
    """Checkpoint: every offset below it is accounted for; null: no stored progress."""
    offsets: dict[str, int]
    """Source offsets by class; they add up to the range."""
    is_balanced: bool | None
    map_runs: int
    """Number of runs of the offset map."""
    life: int
    """Number of earlier source topics with the same name."""
    paused: str
    """Reason why the partition paused itself; empty: it is not paused."""
    gaps: list[str]
    """Losses, newest last."""
    destination_is_current: bool | None = None
    """True if this describes the current destination topic; false: that topic was deleted with the mirrored
    records; null: unknown."""
    not_copied: NotCopied | None = None
    """Reason why the offsets from `next_offset` on are not copied; null: they are."""
    offset_map: list[tuple[int, int, int]] | None = None
    """Runs of source offset, destination offset and length, if requested."""

    @classmethod
    def without_progress(cls, partition: TopicPartition, destination_topic: str) -> LaneProgressAnswer:
        """Return the answer for a partition without stored progress."""
        return cls(
            topic=partition.topic,
            partition=partition.partition,
            destination_topic=destination_topic,
            start_offset=None,
            next_offset=None,
            offsets={},
            is_balanced=None,
            map_runs=0,
            life=0,
            paused="",
            gaps=[],
        )

    @classmethod
    def from_progress(cls, key: LaneKey, one: LaneProgress, *, with_map: bool) -> LaneProgressAnswer:
        """Return the JSON form."""
        document: dict[str, Any] = {
            "topic": key.partition.topic,
            "partition": key.partition.partition,
            "destination_topic": one.target_topic,
            "start_offset": one.ledger.start,
            "next_offset": one.next_offset,
            "offsets": one.ledger.by_class(),
            "is_balanced": one.ledger.is_balanced,
            "map_runs": len(one.offset_map),
            "life": one.life,
            "paused": str(one.pause["reason"]) if one.pause else "",
            "gaps": one.gaps,
        }
        return cls(**document, offset_map=[tuple(run) for run in one.offset_map] if with_map else None)


class _TranslationModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    topic: str
    """Topic on the queried side: the destination topic for to-source."""
    partition: int
    offset: int


class OffsetTranslation(_TranslationModel):
    """Position on the other side of a consumer whose next record is `offset`, by the last stored offset
    map."""

    to_topic: str
    to_partition: int
    to_offset: int
    precision: Precision
    """exact: the same record; next: no record at that offset, the position is that of the next one; end:
    beyond the mirrored records, the position is their end; before: before the first known offset, which is
    the position."""

    @classmethod
    def from_move(cls, move: PositionMove) -> OffsetTranslation:
        """Return the JSON form of a translated position."""
        return cls(**_counterpart(move))


class GroupPosition(OffsetTranslation):
    """Committed position of a consumer group, and its counterpart on the other side."""

    present: int | None
    """Offset that the group has already committed on the other side; null: none."""
    left_alone: str
    """Reason why `headrace translate` would not commit it: already committed, or the group is ahead there;
    empty: it would."""

    @classmethod
    def from_move(cls, move: PositionMove) -> GroupPosition:
        """Return the JSON form of a translated position."""
        return cls(**_counterpart(move), present=move.present, left_alone=move.skipped)


def _counterpart(move: PositionMove) -> dict[str, Any]:
    """Return the fields of a position and of its counterpart."""
    return {
        "topic": move.here.topic,
        "partition": move.here.partition,
        "offset": move.offset,
        "to_topic": move.there.topic,
        "to_partition": move.there.partition,
        "to_offset": move.becomes,
        "precision": Precision(move.precision),
    }


class UntranslatedPosition(_TranslationModel):
    """Committed position without a counterpart."""

    reason: str
    """Not mirrored by this datastream, no stored progress yet, or the destination topic was deleted since."""

    @classmethod
    def from_move(cls, move: PositionMove) -> UntranslatedPosition:
        """Return the JSON form of a position that could not be translated."""
        return cls(
            topic=move.here.topic, partition=move.here.partition, offset=move.offset, reason=move.skipped
        )


class GroupTranslation(BaseModel):
    """All committed positions of a consumer group on one side, translated to the other. Commits nothing: use
    `headrace translate` for that."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    name: str
    group: str
    direction: Direction
    positions: list[GroupPosition]
    untranslated: list[UntranslatedPosition]

    @classmethod
    def from_moves(
        cls, name: str, group: str, direction: Direction, moves: Iterable[PositionMove]
    ) -> GroupTranslation:
        """Return the translation, in the order of the moves."""
        known, unknown = [], []
        for move in moves:
            if move.is_translated:
                known.append(GroupPosition.from_move(move))
            else:
                unknown.append(UntranslatedPosition.from_move(move))
        return cls(name=name, group=group, direction=direction, positions=known, untranslated=unknown)
