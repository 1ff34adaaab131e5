"""Lag and gaps of a datastream's partitions on /v1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict

from api.schemas.lanes import LaneAnswer, MovementAnswer
from api.schemas.progress import LaneProgressAnswer, NotCopied
from mirror.lane.ledger import OffsetClass
from mirror.lane.offset_map import MapRun
from mirror.lane.progress import LaneProgress
from mirror.model.plan import TaskPlacement
from mirror.model.topics import TopicPartition

_LEFT_OUT: Final = (OffsetClass.FILTERED, OffsetClass.COMPACTED, OffsetClass.LOST, OffsetClass.DEAD_LETTERED)
MOST_HOLES: Final = 100


class LagOrder(StrEnum):
    """By what partitions are sorted; those of which it is unknown come first."""

    NAME = "name"
    LAG_RECORDS = "lag_records"
    LAG_MS = "lag_ms"
    RATE = "bytes_per_second"
    POSITION = "position"
    SOURCE_END = "source_end"
    TASK = "task"
    INSTANCE = "instance"
    STATE = "state"


class _LagModel(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class PartitionLag(_LagModel):
    """How far one partition is behind. A number that is not known is null."""

    topic: str
    partition: int
    task: str | None
    """Null: the plan gives it to none."""
    instance: str | None
    """The one that runs the task; null: none does."""
    state: str
    """waiting, starting, copying, paused, stopping, unplaced, left out; unknown: nobody was heard of it."""
    by: Literal["person", "itself"] | None
    """Who paused it."""
    reason: str
    """Why it is not copied, or not known; while it is copied, which quota holds it back."""
    lag_records: int | None
    """Records at the source that are not at the destination."""
    lag_ms: int | None
    """Age of the oldest of them."""
    position: int | None
    """Source offset from which on it is copied next."""
    source_end: int | None
    """End offset of the source."""
    bytes_per_second: float | None
    """Copied now."""
    movement: MovementAnswer | None
    """What its copying does; null while nothing is known of that."""

    @property
    def name(self) -> str:
        """As `orders.created-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def condition(self) -> str:
        """The state of its movement, else that of its copying."""
        return self.movement.state if self.movement is not None else self.state

    @classmethod
    def from_lane(cls, place: TopicPartition, owner: TaskPlacement | None, lane: LaneAnswer) -> PartitionLag:
        """What its instance, or the leader, says of it."""
        return cls(
            topic=place.topic,
            partition=place.partition,
            task=owner.task if owner else None,
            instance=owner.instance if owner else None,
            state=lane.phase,
            by=lane.by,
            reason=lane.reason,
            lag_records=lane.lag_records,
            lag_ms=lane.lag_ms,
            position=lane.position,
            source_end=lane.source_end,
            bytes_per_second=lane.bytes_per_second,
            movement=lane.movement,
        )

    @classmethod
    def unheard(cls, place: TopicPartition, owner: TaskPlacement, state: str, reason: str) -> PartitionLag:
        """A partition of which nothing is said."""
        return cls(
            topic=place.topic,
            partition=place.partition,
            task=owner.task,
            instance=owner.instance,
            state=state,
            by=None,
            reason=reason,
            lag_records=None,
            lag_ms=None,
            position=None,
            source_end=None,
            bytes_per_second=None,
            movement=None,
        )


class DatastreamLag(_LagModel):
    """How far a datastream is behind. The sums are null unless all their parts are known: `unknown` says of
    how many partitions the lag is not."""

    name: str
    status: str
    lag_records: int | None
    lag_ms: int | None
    """Of the partition whose oldest record waits longest."""
    unknown: int
    silent_instances: list[str]
    """Those that were not heard and have partitions of it, or lead."""
    is_complete: bool
    """Whether the leader was heard, which alone knows the partitions that nobody copies."""
    topics: dict[str, int]
    """The topics that it has, with the number of their partitions."""
    states: dict[str, int]
    """Number of partitions by the state of their movement, or by `state` where that is unknown."""
    matching: int
    """Partitions that the filters leave."""
    partitions: list[PartitionLag]
    """Those of them that were asked for."""

    @classmethod
    def from_partitions(
        cls,
        name: str,
        status: str,
        silent: Iterable[str],
        partitions: Sequence[PartitionLag],
        *,
        is_complete: bool,
    ) -> DatastreamLag:
        """With the sums."""
        records = [one.lag_records for one in partitions if one.lag_records is not None]
        ages = [one.lag_ms for one in partitions if one.lag_ms is not None]
        count = len(partitions)
        needed = count if count and is_complete else -1
        return cls(
            name=name,
            status=status,
            lag_records=sum(records) if len(records) == needed else None,
            lag_ms=max(ages) if len(ages) == needed else None,
            unknown=count - len(records),
            silent_instances=sorted(silent),
            is_complete=is_complete,
            topics=dict(sorted(Counter(one.topic for one in partitions).items())),
            states=dict(Counter(one.condition for one in partitions).most_common()),
            matching=count,
            partitions=list(partitions),
        )

    def narrowed(self, wanted: LagQuery) -> DatastreamLag:
        """With the partitions that are asked for, in that order; sums stay those of all."""
        text = wanted.text.lower()
        found = [
            one
            for one in self.partitions
            if text in one.name.lower() and wanted.state in (None, one.condition)
        ]
        if wanted.instance is not None:
            found = [one for one in found if one.instance == wanted.instance]
        key = _ORDERS[wanted.sort]
        known = [one for one in found if key(one) is not None]
        known.sort(key=key, reverse=wanted.descending)
        found = [*(one for one in found if key(one) is None), *known]
        last = None if wanted.limit is None else wanted.offset + wanted.limit
        return self.model_copy(update={"matching": len(found), "partitions": found[wanted.offset : last]})


@dataclass(frozen=True)
class LagQuery:
    """What of the partitions is asked for. `limit` None: all from `offset` on."""

    text: str = ""
    state: str | None = None
    instance: str | None = None
    sort: LagOrder = LagOrder.NAME
    descending: bool = False
    offset: int = 0
    limit: int | None = None


_ORDERS: Final[Mapping[LagOrder, Callable[[PartitionLag], Any]]] = {
    LagOrder.NAME: lambda one: (one.topic, one.partition),
    LagOrder.LAG_RECORDS: lambda one: one.lag_records,
    LagOrder.LAG_MS: lambda one: one.lag_ms,
    LagOrder.RATE: lambda one: one.bytes_per_second,
    LagOrder.POSITION: lambda one: one.position,
    LagOrder.SOURCE_END: lambda one: one.source_end,
    LagOrder.TASK: lambda one: one.task,
    LagOrder.INSTANCE: lambda one: one.instance,
    LagOrder.STATE: lambda one: one.condition,
}


class PartitionGaps(_LagModel):
    """What of one partition is not at the destination and will not come by itself, as it was stored last."""

    topic: str
    partition: int
    destination_topic: str
    start_offset: int | None
    """Where the counts begin; null: nothing is stored."""
    next_offset: int | None
    """The checkpoint: everything below is accounted for; null: nothing is stored."""
    offsets: dict[str, int]
    """Source offsets without a record at the destination: filtered, compacted, lost, dead_lettered."""
    events: list[str]
    """What was lost, cut off or begun again, with its offsets, newest last; the last 20."""
    holes: list[tuple[int, int]]
    """First and last source offset of what the offset map leaves out, transaction markers and aborted records
    among it; the last 100."""
    holes_before: int
    """How many more there are before these, as far as the map reaches."""
    refused: str
    """Why the partition has paused itself, such as a record that is refused; empty: it has not."""
    destination_is_current: bool | None
    """False: the topic that was mirrored to was deleted, with what was mirrored; null: not known."""
    not_copied: NotCopied | None
    """Why nothing is copied behind `next_offset`; null: it is copied."""

    @property
    def is_remarkable(self) -> bool:
        """Whether anything is missing or will be."""
        is_gone = self.destination_is_current is False
        return bool(any(self.offsets.values()) or self.events or self.refused or self.not_copied or is_gone)

    @classmethod
    def from_answer(cls, answer: LaneProgressAnswer, stored: LaneProgress | None) -> PartitionGaps:
        """`stored`: what `answer` says of the ledger was made of."""
        holes = _holes(list(stored.offset_map), stored.next_offset) if stored else []
        return cls(
            topic=answer.topic,
            partition=answer.partition,
            destination_topic=answer.destination_topic,
            start_offset=answer.start_offset,
            next_offset=answer.next_offset,
            offsets={one.name.lower(): answer.offsets.get(one.name.lower(), 0) for one in _LEFT_OUT}
            if stored
            else {},
            events=answer.gaps,
            holes=holes[-MOST_HOLES:],
            holes_before=max(len(holes) - MOST_HOLES, 0),
            refused=answer.paused,
            destination_is_current=answer.destination_is_current,
            not_copied=answer.not_copied,
        )


def _holes(runs: list[MapRun], end: int) -> list[tuple[int, int]]:
    """Between the runs of a map and behind the last of them."""
    begins = [*(run.source for run in runs[1:]), end]
    ends = [run.source + run.length for run in runs]
    return [(first, behind - 1) for first, behind in zip(ends, begins, strict=bool(runs)) if behind > first]


class DatastreamGaps(_LagModel):
    """Partitions of which something is not at the destination. Of `unknown` nothing is stored yet: nothing is
    known of what they lack."""

    name: str
    looked_at: int
    """Partitions with stored progress."""
    unknown: list[str]
    partitions: list[PartitionGaps]
