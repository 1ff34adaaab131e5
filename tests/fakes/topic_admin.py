"""The topics of a cluster in memory. Satisfies `mirror.ports.TopicAdmin`.

It passes the same contract as the adapter on a real cluster (tests/contract/mirror/test_topic_admin.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from mirror.errors import HeadraceError, Refused, TopicMissing
from mirror.model.movement.history import UNLIMITED, Retention
from mirror.model.topics import SourcePosition, TopicDescription, TopicPartition, WaitingRecord


class FakeTopicAdmin:
    """`failure`: what every request raises, if anything; `asked`: how many requests there were; `forbidden`:
    topics that may not be described; `asked_by_name`: questions for those; `identity`: what the cluster
    calls itself; `committed`: of consumer groups; `ranges`: first and end offset; `positions_failure`: what
    only a question for those raises; `refused`: what changes of single topics raise; `adjustments`: sentences
    about the settings of each created topic; `written`: when a record was; `searched`: questions for that."""

    def __init__(self, **topics: int) -> None:
        self.identity = uuid4().hex
        self.illegal_topics = 0
        self.topics = {name: TopicDescription(name, count) for name, count in topics.items()}
        self.forbidden: set[str] = set()
        self.asked_by_name = 0
        self.failure: HeadraceError | None = None
        self.positions_failure: HeadraceError | None = None
        self.refused: dict[str, HeadraceError] = {}
        self.adjustments: tuple[str, ...] = ()
        self.asked = 0
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        self.written: dict[tuple[TopicPartition, int], int] = {}
        self.searched: list[dict[TopicPartition, int]] = []

    def cluster_id(self) -> str:
        """As in the port."""
        self._ask()
        return self.identity

    def list_topics(self) -> Mapping[str, int]:
        """As in the port."""
        self._ask()
        return {name: one.partitions for name, one in self.topics.items() if name not in self.forbidden}

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """As in the port."""
        self._ask()
        self.asked_by_name += 1
        return frozenset(topics) & self.forbidden

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """As in the port."""
        self._ask()
        return {name: self.topics[name] for name in topics if name in self.topics.keys() - self.forbidden}

    def create(self, topic: TopicDescription) -> tuple[str, ...]:
        """As in the port."""
        self._ask()
        if topic.name in self.refused:
            raise self.refused[topic.name]
        if topic.partitions < 1:
            raise Refused(f"topic {topic.name} needs a partition")
        self.topics.setdefault(topic.name, topic)
        return self.adjustments

    def grow(self, topic: str, partitions: int) -> None:
        """As in the port."""
        self._ask()
        if topic in self.refused:
            raise self.refused[topic]
        if topic not in self.topics:
            raise TopicMissing(f"there is no topic {topic}")
        if self.topics[topic].partitions < partitions:
            self.topics[topic] = replace(self.topics[topic], partitions=partitions)

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """As in the port; a partition of which nothing was said is empty."""
        self._ask()
        if self.positions_failure is not None:
            raise self.positions_failure
        known = [one for one in partitions if one.topic in self.topics]
        ranges = {one: self.ranges.get(one, (0, 0)) for one in known}
        return {one: SourcePosition(self.committed.get((group, one)), *ranges[one]) for one in known}

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """As in the port; of the records that `written` knows."""
        self._ask()
        self.searched.append(dict(places))
        known = {one: offset for one, offset in places.items() if one.topic in self.topics}
        kept = {one.topic: self.topics[one.topic].settings.get("retention.ms", "604800000") for one in known}
        return {
            one: WaitingRecord(self.written.get((one, offset)), Retention(int(kept[one.topic]), UNLIMITED))
            for one, offset in known.items()
        }

    def _ask(self) -> None:
        self.asked += 1
        if self.failure is not None:
            raise self.failure
