"""How far the copying of a partition has come."""

from __future__ import annotations

from dataclasses import dataclass

from mirror.model.identifiers import GroupName
from mirror.model.topics import TopicPartition


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything below `next_offset` (a source offset) is at the destination or accounted for.

    `written_ms`: when it was taken, epoch milliseconds.
    """

    group: GroupName
    partition: TopicPartition
    next_offset: int
    written_ms: int
