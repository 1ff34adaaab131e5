"""Progress of lanes on /v1, and offsets of one side on the other, which it knows."""

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
    """The class of all offsets behind a checkpoint that nobody copies. Numbers are null where they are not
    known; the leader knows them."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    state: str
    """paused, unplaced, left out"""
    reason: str
    requested_by: str
    since_ms: int | None
    offsets: int | None
    """How many there are."""
    retained: int | None
    """Records that retention may still delete before it reaches the first of them."""
    lost: int | None
    """Those that it has deleted already."""

    @classmethod
    def from_uncopied(cls, lane: UncopiedLane) -> NotCopied:
        """The JSON form."""
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
    """One partition, as it was stored last; docs/data-plane/offsets.md explains the classes of `offsets`."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    topic: str
    partition: int
    destination_topic: str
    start_offset: int | None
    """Where the ledger begins; null: nothing is stored."""
    next_offset: int | None
    """The checkpoint: everything below is accounted for; null: nothing is stored."""
    offsets: dict[str, int]
    """Source offsets by what became of them; they add up to the range."""
    is_balanced: bool | None
    map_runs: int
    """Runs of the offset map."""
    life: int
    """Source topics that bore the name before this one."""
    paused: str
    """Why the partition paused itself; empty when it has not."""
    gaps: list[str]
    """What was lost, newest last."""
    destination_is_current: bool | None = None
    """Whether this is about the topic that is at the destination now; false: that topic was deleted, and what
    was mirrored is gone; null: not known."""
    not_copied: NotCopied | None = None
    """Why nothing is copied behind `next_offset`; null: it is copied."""
    offset_map: list[tuple[int, int, int]] | None = None
    """Runs of source offset, destination offset and length, when they were asked for."""

    @classmethod
    def from_nothing(cls, partition: TopicPartition, destination_topic: str) -> LaneProgressAnswer:
        """A partition of which nothing is stored."""
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
        """The JSON form."""
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
    """On the side that is asked about: for to-source it is the destination topic."""
    partition: int
    offset: int


class OffsetTranslation(_TranslationModel):
    """Where a consumer that would next read `offset` goes on at the other side, by the offset map that was
    stored last."""

    to_topic: str
    to_partition: int
    to_offset: int
    precision: Precision
    """exact: the same record; next: there is no record at that offset, this is where the next one lies; end:
    beyond what is known to be mirrored, this is the end of it; before: in front of it, this is the first that
    is known."""

    @classmethod
    def from_move(cls, move: PositionMove) -> OffsetTranslation:
        """The JSON form of what could be translated."""
        return cls(**_counterpart(move))


class GroupPosition(OffsetTranslation):
    """A committed position of a consumer group, and where it is at the other side."""

    present: int | None
    """What the group has committed at the other side already; null: nothing."""
    left_alone: str
    """Why `headrace translate` would not commit it: it is so already, or the group is ahead there; empty: it
    would."""

    @classmethod
    def from_move(cls, move: PositionMove) -> GroupPosition:
        """The JSON form of what could be translated."""
        return cls(**_counterpart(move), present=move.present, left_alone=move.skipped)


def _counterpart(move: PositionMove) -> dict[str, Any]:
    """The fields of a position and of its counterpart."""
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
    """A committed position without a counterpart."""

    reason: str
    """Not mirrored by this datastream, nothing stored yet, or the destination topic was deleted since."""

    @classmethod
    def from_move(cls, move: PositionMove) -> UntranslatedPosition:
        """The JSON form of what could not be translated."""
        return cls(
            topic=move.here.topic, partition=move.here.partition, offset=move.offset, reason=move.skipped
        )


class GroupTranslation(BaseModel):
    """All that a consumer group has committed on one side, translated to the other. Nothing is committed:
    `headrace translate` does that."""

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
        """In the order of the moves."""
        known, unknown = [], []
        for move in moves:
            if move.is_translated:
                known.append(GroupPosition.from_move(move))
            else:
                unknown.append(UntranslatedPosition.from_move(move))
        return cls(name=name, group=group, direction=direction, positions=known, untranslated=unknown)
