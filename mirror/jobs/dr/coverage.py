"""Checks whether all records of the source are copied. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final, NamedTuple

from mirror.lane.ledger import OffsetClass
from mirror.lane.progress import LaneProgress
from mirror.model.topics import TopicPartition
from mirror.wording import counted

MOST_GAPS: Final = 100
_LACKING = (OffsetClass.FILTERED, OffsetClass.LOST, OffsetClass.DEAD_LETTERED)


class PartitionSpan(NamedTuple):
    """First offset and end offset of a source partition."""

    first: int
    end: int


class Missing(NamedTuple):
    """A source partition that is not copied completely. `offsets`: number of uncopied offsets."""

    place: TopicPartition
    offsets: int

    def __str__(self) -> str:
        """Return the partition, with the number of uncopied offsets in parentheses."""
        return f"{self.place} ({self.offsets})"


def uncopied(
    spans: Mapping[TopicPartition, PartitionSpan], lanes: Mapping[TopicPartition, LaneProgress]
) -> list[Missing]:
    """Return the partitions whose checkpoint is before the end of the source, sorted by descending backlog.

    In a partition without a checkpoint, all offsets count as backlog.
    """
    found = []
    for place, span in spans.items():
        lane = lanes.get(place)
        behind = span.end - (span.first if lane is None else max(lane.next_offset, span.first))
        if behind > 0:
            found.append(Missing(place, behind))
    return sorted(found, key=lambda gap: (-gap.offsets, gap.place))


def differing_topics(
    origin: str, origin_counts: Mapping[str, int], target: str, target_counts: Mapping[str, int]
) -> list[str]:
    """Return a message for each topic that is missing at the target or has another partition count there.

    `origin_counts`, `target_counts`: partition counts at the two clusters.
    """
    found = []
    for name, count in sorted(origin_counts.items()):
        if name not in target_counts:
            found.append(f"{name} does not exist at {target}")
        elif count != target_counts[name]:
            found.append(
                f"{name} has {counted(count, 'partition')} at {origin}, and {target_counts[name]} at {target}"
            )
    return found


def unaccounted(lanes: Mapping[TopicPartition, LaneProgress]) -> list[TopicPartition]:
    """Return the partitions with unaccounted offsets: offsets without a class such as copied or filtered."""
    return sorted(place for place, lane in lanes.items() if not lane.ledger.is_balanced)


def left_out(lanes: Mapping[TopicPartition, LaneProgress]) -> dict[str, int]:
    """Return the number of records of each offset class that were not copied intentionally."""
    totals = {kind.name.lower(): sum(lane.ledger.total(kind) for lane in lanes.values()) for kind in _LACKING}
    return {kind: count for kind, count in totals.items() if count}


def gaps_of(lanes: Mapping[TopicPartition, LaneProgress]) -> tuple[str, ...]:
    """Return messages about offset ranges that the source lost before they were copied, at most
    `MOST_GAPS`."""
    found = (f"{place}: {gap}" for place, lane in sorted(lanes.items()) for gap in lane.gaps)
    return tuple(islice(found, MOST_GAPS))
