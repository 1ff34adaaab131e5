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
    """Sort key of partitions; partitions with an unknown value come first."""

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
    """Lag of one partition. Unknown numbers are null."""

    topic: str
    partition: int
    task: str | None
    """Null: not in the plan."""
    instance: str | None
    """Instance that runs the task; null: none."""
    state: str
    """waiting, starting, copying, paused, stopping, unplaced, left out; unknown: no instance has reported
    it."""
    by: Literal["person", "itself"] | None
    """Who paused the partition."""
    reason: str
    """Reason why the partition is not copied, or its state unknown; while it is copied, the quota that
    throttles it."""
    lag_records: int | None
    """Records at the source that are not at the destination."""
    lag_ms: int | None
    """Age of the oldest of these records."""
    position: int | None
    """Next source offset to copy."""
    source_end: int | None
    """End offset of the source."""
    bytes_per_second: float | None
    """Current copy rate."""
    timestamp_offset_seconds: float | None = None
    """Offset of its timestamps: positive if the clock of a producer is ahead, negative if it is behind or the
    timestamps are older event times; 0 if right as far as known."""
    movement: MovementAnswer | None
    """Movement of the partition's position; null if unknown."""

    @property
    def name(self) -> str:
        """Topic and number, such as `orders.created-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def condition(self) -> str:
        """State of the movement, or else of the lane."""
        return self.movement.state if self.movement is not None else self.state

    @classmethod
    def from_lane(cls, place: TopicPartition, owner: TaskPlacement | None, lane: LaneAnswer) -> PartitionLag:
        """Return the lag of a partition that its instance, or the leader, has reported."""
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
            timestamp_offset_seconds=lane.timestamp_offset_seconds,
            movement=lane.movement,
        )

    @classmethod
    def unreported(cls, place: TopicPartition, owner: TaskPlacement, state: str, reason: str) -> PartitionLag:
        """Return the lag of a partition that no instance has reported."""
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
    """Lag of a datastream. Sums are null unless all of their parts are known; `unknown` is the number of
    partitions with unknown lag."""

    name: str
    status: str
    lag_records: int | None
    lag_ms: int | None
    """Lag of the partition whose oldest record has waited longest."""
    unknown: int
    silent_instances: list[str]
    """Instances that did not respond and run partitions of the datastream, or lead."""
    is_complete: bool
    """True if the leader responded. Only the leader knows the partitions that no task copies."""
    topics: dict[str, int]
    """Number of partitions by topic."""
    states: dict[str, int]
    """Number of partitions by state of their movement, or by `state` if that is unknown."""
    matching: int
    """Number of partitions that match the filters."""
    partitions: list[PartitionLag]
    """Requested page of the matching partitions."""

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
        """Build the answer with its sums."""
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
        """Return a copy with the requested partitions in the requested order; sums still cover all."""
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
    """Filter, order and page of a lag query. `limit` None: all partitions from `offset` on."""

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
    """Records of one partition that are missing at the destination and will not be copied without an
    operator's action, as last stored."""

    topic: str
    partition: int
    destination_topic: str
    start_offset: int | None
    """Offset at which the counts start; null: no stored progress."""
    next_offset: int | None
    """Checkpoint: every offset below it is accounted for; null: no stored progress."""
    offsets: dict[str, int]
    """Source offsets without a record at the destination: filtered, compacted, lost, dead_lettered."""
    events: list[str]
    """Losses, truncations and restarts with their offsets, newest last; the last 20."""
    holes: list[tuple[int, int]]
    """First and last source offset of the holes in the offset map, including transaction markers and aborted
    records; the last 100."""
    holes_before: int
    """Number of earlier holes in the map."""
    refused: str
    """Reason why the partition paused itself, such as a rejected record; empty: it is not paused."""
    destination_is_current: bool | None
    """False: the destination topic was deleted with the mirrored records; null: unknown."""
    not_copied: NotCopied | None
    """Reason why the offsets from `next_offset` on are not copied; null: they are."""

    @property
    def is_remarkable(self) -> bool:
        """True if records are missing at the destination or will be."""
        is_gone = self.destination_is_current is False
        return bool(any(self.offsets.values()) or self.events or self.refused or self.not_copied or is_gone)

    @classmethod
    def from_answer(cls, answer: LaneProgressAnswer, stored: LaneProgress | None) -> PartitionGaps:
        """Return the gaps. `stored`: the progress that the ledger fields of `answer` come from."""
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
    """Return the holes between the runs of a map and after the last one."""
    begins = [*(run.source for run in runs[1:]), end]
    ends = [run.source + run.length for run in runs]
    return [(first, behind - 1) for first, behind in zip(ends, begins, strict=bool(runs)) if behind > first]


class DatastreamGaps(_LagModel):
    """Partitions with records missing at the destination. `unknown`: partitions without stored progress."""

    name: str
    looked_at: int
    """Number of partitions with stored progress."""
    unknown: list[str]
    partitions: list[PartitionGaps]
