"""Topics of a cluster in memory. Satisfies `mirror.ports.TopicAdmin`.

It passes the same contract as the adapter on a real cluster (tests/contract/mirror/test_topic_admin.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import uuid4

from mirror.errors import HeadraceError, Refused, TopicMissing
from mirror.model.movement.history import UNLIMITED, Retention
from mirror.model.topics import (
    SourcePosition,
    TopicCreation,
    TopicDescription,
    TopicPartition,
    WaitingRecord,
)


class FakeTopicAdmin:
    """Fake cluster. `identity`: cluster id. `asked`: number of requests. `forbidden`: hidden topics.

    `failure`: raised by every request; `positions_failure`: only by `positions`; `refused`: by changes of
    single topics; `unreadable`: errors of topics whose settings cannot be read. `asked_by_name`: number of
    `hidden` requests. `committed`: offsets of groups. `ranges`: first and end offsets. `adjustments`:
    messages about the settings of each created topic. `written`: timestamps of records. `searched`: arguments
    of `first_records`. `created`: topics of each creation.
    """

    def __init__(self, **topics: int) -> None:
        self.identity = uuid4().hex
        self.illegal_topics = 0
        self.topics = {name: TopicDescription(name, count) for name, count in topics.items()}
        self.forbidden: set[str] = set()
        self.asked_by_name = 0
        self.failure: HeadraceError | None = None
        self.positions_failure: HeadraceError | None = None
        self.refused: dict[str, HeadraceError] = {}
        self.unreadable: dict[str, HeadraceError] = {}
        self.adjustments: tuple[str, ...] = ()
        self.asked = 0
        self.created: list[list[str]] = []
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.ranges: dict[TopicPartition, tuple[int, int]] = {}
        self.written: dict[tuple[TopicPartition, int], int] = {}
        self.searched: list[dict[TopicPartition, int]] = []

    def cluster_id(self) -> str:
        """Return the id of the fake cluster."""
        self._ask()
        return self.identity

    def list_topics(self) -> Mapping[str, int]:
        """Return the partition count by topic name."""
        self._ask()
        return {name: one.partitions for name, one in self.topics.items() if name not in self.forbidden}

    def hidden(self, topics: Sequence[str]) -> frozenset[str]:
        """Return the given topics that are in `forbidden`."""
        self._ask()
        self.asked_by_name += 1
        return frozenset(topics) & self.forbidden

    def describe(self, topics: Sequence[str]) -> Mapping[str, TopicDescription]:
        """Return descriptions of the existing topics by name."""
        self._ask()
        return {name: self._described(name) for name in topics if name in self.topics.keys() - self.forbidden}

    def _described(self, name: str) -> TopicDescription:
        if name in self.unreadable:
            return TopicDescription(name, self.topics[name].partitions, settings_error=self.unreadable[name])
        return self.topics[name]

    def create(self, topic: TopicDescription) -> tuple[str, ...]:
        """Create a topic unless it exists."""
        made = self.create_each([topic])[topic.name]
        if made.error is not None:
            raise made.error
        return made.adjustments

    def create_each(self, topics: Sequence[TopicDescription]) -> dict[str, TopicCreation]:
        """Create each topic unless it exists. Return the result by topic."""
        self._ask()
        self.created.append([topic.name for topic in topics])
        return {topic.name: self._create(topic) for topic in topics}

    def _create(self, topic: TopicDescription) -> TopicCreation:
        if topic.name in self.refused:
            return TopicCreation(self.refused[topic.name])
        if topic.partitions < 1:
            return TopicCreation(Refused(f"topic {topic.name} needs a partition"))
        self.topics.setdefault(topic.name, topic)
        return TopicCreation(adjustments=self.adjustments)

    def grow(self, topic: str, partitions: int) -> None:
        """Increase the partition count of a topic. Raises its error."""
        error = self.grow_each({topic: partitions})[topic].error
        if error is not None:
            raise error

    def grow_each(self, partitions: Mapping[str, int]) -> dict[str, TopicCreation]:
        """Increase the partition count of each topic. Return the result by topic."""
        self._ask()
        return {topic: self._grow(topic, count) for topic, count in partitions.items()}

    def _grow(self, topic: str, partitions: int) -> TopicCreation:
        if topic in self.refused:
            return TopicCreation(self.refused[topic])
        if topic not in self.topics:
            return TopicCreation(TopicMissing(f"unknown topic {topic}"))
        if self.topics[topic].partitions < partitions:
            self.topics[topic] = replace(self.topics[topic], partitions=partitions)
        return TopicCreation()

    def positions(
        self, group: str, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, SourcePosition]:
        """Return the offsets of each partition. A partition without a range is empty."""
        self._ask()
        if self.positions_failure is not None:
            raise self.positions_failure
        known = [one for one in partitions if one.topic in self.topics]
        ranges = {one: self.ranges.get(one, (0, 0)) for one in known}
        return {one: SourcePosition(self.committed.get((group, one)), *ranges[one]) for one in known}

    def first_records(self, places: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, WaitingRecord]:
        """Return the first record at or after each offset, with the timestamps in `written`."""
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
