"""Decides whether all records of the source are copied. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from mirror.lane.ledger import OffsetClass
from mirror.lane.progress import LaneProgress
from mirror.model.topics import TopicPartition

MOST_GAPS: Final = 100
_LACKING = (OffsetClass.FILTERED, OffsetClass.LOST, OffsetClass.DEAD_LETTERED)


class PartitionSpan(NamedTuple):
    """First offset and end offset of a source partition."""

    first: int
    end: int


class Missing(NamedTuple):
    """A source partition, and the number of its offsets after the checkpoint."""

    place: TopicPartition
    offsets: int

    def __str__(self) -> str:
        """Return the partition, and the number of offsets in parentheses."""
        return f"{self.place} ({self.offsets})"


def uncopied(
    spans: Mapping[TopicPartition, PartitionSpan], lanes: Mapping[TopicPartition, LaneProgress]
) -> list[Missing]:
    """Return the partitions whose checkpoint is before the end of the source, with the largest backlog first.
    For a partition without a checkpoint, all offsets from the first offset count."""
    found = []
    for place, span in spans.items():
        lane = lanes.get(place)
        behind = span.end - (span.first if lane is None else max(lane.next_offset, span.first))
        if behind > 0:
            found.append(Missing(place, behind))
    return sorted(found, key=lambda one: (-one.offsets, one.place))


def unaccounted(lanes: Mapping[TopicPartition, LaneProgress]) -> list[TopicPartition]:
    """Return the partitions that have an offset without a class."""
    return sorted(place for place, lane in lanes.items() if not lane.ledger.is_balanced)


def left_out(lanes: Mapping[TopicPartition, LaneProgress]) -> dict[str, int]:
    """Return the number of records that are not at the destination, by offset class."""
    totals = {kind.name.lower(): sum(lane.ledger.total(kind) for lane in lanes.values()) for kind in _LACKING}
    return {kind: count for kind, count in totals.items() if count}


def gaps_of(lanes: Mapping[TopicPartition, LaneProgress]) -> tuple[str, ...]:
    """Describe offset ranges that the source lost before they were copied, at most `MOST_GAPS`."""
    found = (f"{place}: {gap}" for place, lane in sorted(lanes.items()) for gap in lane.gaps)
    return tuple(islice(found, MOST_GAPS))
