"""Requests for offsets of partitions and of consumer groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from kafka.protocol import admin, consumer

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import MANY_BYTES, Call, Fields

LATEST: Final = -1
"""Timestamp that requests the high watermark or, with read_committed, the last stable offset."""
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
"""Timestamp that requests the first offset on the leader's local disks (KIP-405)."""
_FIRST_WITH_TIERS: Final = 8
OFFSET_FETCH: Final = 9
"""Kafka's API key of OffsetFetch."""
_OFFSET_FETCH: Final = (consumer.OffsetFetchRequest, consumer.OffsetFetchResponse)
MANY_GROUPS_FROM: Final = 8
"""First version of OffsetFetch that allows several groups."""


class OffsetAnswer(NamedTuple):
    """An offset, with the leader epoch and timestamp (epoch ms) of its record.

    All fields are -1 if no offset was found; the timestamp is -1 unless the lookup was by time.
    """

    error: int
    offset: int
    leader_epoch: int
    timestamp_ms: int = -1


Answers = Mapping[TopicPartition, OffsetAnswer]


def list_offsets(wanted: Mapping[TopicPartition, int], *, committed: bool) -> Call[Answers]:
    """Return a request for the offsets of partitions at timestamps, for the leader of the partitions.

    A time is epoch milliseconds (for the first record at or after that time), `EARLIEST`, `EARLIEST_LOCAL` or
    `LATEST`. Brokers without tiered storage have all records on local disks.
    """

    def when(place: TopicPartition, version: int) -> int:
        is_untiered = wanted[place] == EARLIEST_LOCAL and version < _FIRST_WITH_TIERS
        return EARLIEST if is_untiered else wanted[place]

    def fields(version: int) -> Fields:
        topics = topic_fields(
            wanted,
            lambda place: {
                "partition_index": place.partition,
                "current_leader_epoch": -1,
                "timestamp": when(place, version),
            },
        )
        return {"replica_id": -1, "isolation_level": int(committed), "topics": topics}

    return Call(consumer.ListOffsetsRequest, consumer.ListOffsetsResponse, (1, 8), fields, _offsets)


def by_topic(partitions: Iterable[TopicPartition]) -> list[tuple[str, list[int]]]:
    """Return each topic with the numbers of its partitions, sorted."""
    return [
        (topic, [number for _, number in group])
        for topic, group in groupby(sorted(partitions), key=itemgetter(0))
    ]


def topic_fields(
    partitions: Iterable[TopicPartition], fields_of: Callable[[TopicPartition], Fields], label: str = "name"
) -> list[Fields]:
    """Return the structures of a request that contain partitions grouped by topic, sorted.

    `fields_of`: returns the structure of a partition. `label`: field with the name of the topic.
    """
    return [
        {label: topic, "partitions": [fields_of(TopicPartition(topic, number)) for number in numbers]}
        for topic, numbers in by_topic(partitions)
    ]


def _offsets(response: Any) -> Answers:
    return {
        TopicPartition(topic.name, partition.partition_index): OffsetAnswer(
            partition.error_code, partition.offset, partition.leader_epoch, partition.timestamp
        )
        for topic in response.topics
        for partition in topic.partitions
    }


def ends_of_epochs(epochs: Mapping[TopicPartition, int]) -> Call[Answers]:
    """Return a request for the end offset of each leader epoch, for the leader of the partition. The end is
    the start of the next epoch, or the end of the log; -1 if the leader does not know the epoch (KIP-320)."""
    topics = topic_fields(
        epochs,
        lambda place: {
            "partition": place.partition,
            "current_leader_epoch": -1,
            "leader_epoch": epochs[place],
        },
        "topic",
    )

    def read(response: Any) -> Answers:
        return {
            TopicPartition(topic.topic, partition.partition): OffsetAnswer(
                partition.error_code, partition.end_offset, partition.leader_epoch
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    messages = (consumer.OffsetForLeaderEpochRequest, consumer.OffsetForLeaderEpochResponse)
    return Call(*messages, (2, 4), {"replica_id": -1, "topics": topics}, read)


class OpenTransaction(NamedTuple):
    """An open transaction, before which the last stable offset must stay."""

    producer_id: int
    first_offset: int


def open_transactions(
    partitions: Iterable[TopicPartition],
) -> Call[Mapping[TopicPartition, tuple[OpenTransaction, ...]]]:
    """Return a request for the open transactions of partitions, oldest first, for their leader."""
    topics = [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(partitions)]

    def read(response: Any) -> Mapping[TopicPartition, tuple[OpenTransaction, ...]]:
        return {
            TopicPartition(topic.name, partition.partition_index): tuple(
                sorted(
                    (
                        OpenTransaction(p.producer_id, p.current_txn_start_offset)
                        for p in partition.active_producers or ()
                        if p.current_txn_start_offset >= 0
                    ),
                    key=lambda transaction: transaction.first_offset,
                )
            )
            for topic in response.topics
            for partition in topic.partitions
        }

    messages = (admin.DescribeProducersRequest, admin.DescribeProducersResponse)
    return Call(*messages, (0, 0), {"topics": topics}, read, MANY_BYTES)


class CommittedOffsets(NamedTuple):
    """Committed offsets of a consumer group. Partitions without a committed offset are missing.

    If `error` is set (not the coordinator, or not authorized), the response contains no partitions.
    """

    error: int
    offsets: Answers

    @property
    def worst(self) -> int:
        """Error code of the whole response or of a partition; 0 if there is no error."""
        return self.error or max((answer.error for answer in self.offsets.values()), default=0)


def committed_offsets(group: str, partitions: Iterable[TopicPartition] | None) -> Call[CommittedOffsets]:
    """Return a request for a group's committed offsets. `partitions` None means all partitions."""
    topics = None
    if partitions is not None:
        topics = [{"name": name, "partition_indexes": numbers} for name, numbers in by_topic(partitions)]
    fields = {"group_id": group, "topics": topics, "require_stable": True}
    return Call(*_OFFSET_FETCH, (2, 7), fields, _committed, MANY_BYTES)


def committed_offsets_of(groups: Sequence[str]) -> Call[Mapping[str, CommittedOffsets]]:
    """Return a request for all committed offsets of several groups, for their common coordinator."""
    asked = [{"group_id": group, "topics": None} for group in groups]

    def read(response: Any) -> Mapping[str, CommittedOffsets]:
        return {group.group_id: _committed(group) for group in response.groups}

    fields = {"groups": asked, "require_stable": True}
    return Call(*_OFFSET_FETCH, (MANY_GROUPS_FROM, 9), fields, read, MANY_BYTES)


def _committed(found: Any) -> CommittedOffsets:
    """Return the committed offsets in a response, or in the part of a response about one group."""
    offsets = {
        TopicPartition(topic.name, partition.partition_index): OffsetAnswer(
            partition.error_code, partition.committed_offset, partition.committed_leader_epoch
        )
        for topic in found.topics
        for partition in topic.partitions
        if partition.committed_offset >= 0 or partition.error_code
    }
    return CommittedOffsets(found.error_code, offsets)


def commit_offsets(group: str, offsets: Mapping[TopicPartition, int]) -> Call[Mapping[TopicPartition, int]]:
    """Return a request that commits offsets of a group without members. Its result is an error code for each
    partition."""
    topics = topic_fields(
        offsets,
        lambda place: {
            "partition_index": place.partition,
            "committed_offset": offsets[place],
            "committed_metadata": "",
        },
    )
    fields = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}

    def read(response: Any) -> Mapping[TopicPartition, int]:
        return {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in response.topics
            for partition in topic.partitions
        }

    return Call(consumer.OffsetCommitRequest, consumer.OffsetCommitResponse, (2, 8), fields, read)
