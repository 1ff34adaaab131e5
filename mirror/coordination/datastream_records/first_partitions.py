"""Initial partitions of a datastream: those that existed when it was first planned. Pure.

Only these partitions may start at the end of their log. A partition that is added later contains only records
written after the datastream was created, so it is copied from the start of its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirror.model.datastreams.datastream import Datastream, StartPosition
from mirror.model.datastreams.lanes import LaneSpec
from mirror.model.datastreams.starts import restart_of
from mirror.model.topics import TopicPartition, TopicSelection


@dataclass(frozen=True)
class FirstPartitions:
    """Partition count of each topic when the datastream was first planned.

    `since_ms`: creation time of the datastream, 0 if unknown. `selection`: topic selection of the datastream
    at that time.
    """

    since_ms: int
    selection: TopicSelection
    counts: Mapping[str, int]

    def holds(self, partition: TopicPartition) -> bool:
        """Return whether the partition existed when the datastream was first planned."""
        return partition.partition < self.counts.get(partition.topic, 0)


def since_of(datastream: Datastream) -> int:
    """Return the creation time of the datastream (epoch ms); 0 if unknown."""
    return datastream.created_ms or 0


def begins_at_end(datastream: Datastream) -> bool:
    """Return whether partitions of the datastream may start at the end of their log."""
    return restart_of(datastream).start.position.is_latest


def first_partitions(
    datastream: Datastream, topics: Mapping[str, int], known: FirstPartitions | None
) -> FirstPartitions:
    """Return the initial partitions to store for a datastream.

    `topics`: partition counts of all source topics. `known`: stored initial partitions, or None.

    A recreated datastream with the same name gets new initial partitions. Topics that an update selects are
    added.
    """
    selection = datastream.selection
    selected = {topic: count for topic, count in topics.items() if selection.matches(topic)}
    if known is None or known.since_ms != since_of(datastream):
        return FirstPartitions(since_of(datastream), selection, selected)
    if known.selection == selection:
        return known
    added = {topic: count for topic, count in selected.items() if not known.selection.matches(topic)}
    return replace(known, selection=selection, counts={**known.counts, **added})


def with_beginning(spec: LaneSpec, datastream: Datastream, first: FirstPartitions | None) -> LaneSpec:
    """Return the lane's spec with the start position for its partition. `first`: stored initial partitions;
    at the first start, None or those of an earlier datastream with the same name."""
    is_known = first is not None and first.since_ms == since_of(datastream)
    if first is None or not is_known or not spec.start.is_latest or first.holds(spec.key.partition):
        return spec
    later = StartPosition.COMMITTED if spec.start.is_committed else StartPosition.EARLIEST
    return replace(spec, start=later)
