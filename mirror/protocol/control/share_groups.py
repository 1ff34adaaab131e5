"""Requests for the start offsets of share groups (KIP-932).

A start offset is the offset of the first record that the group has not acknowledged. Brokers do not disclose
which later records it has acknowledged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import MANY_BYTES, Call
from mirror.protocol.control.group_messages import ALTER_SHARE_GROUP_OFFSETS, DESCRIBE_SHARE_GROUP_OFFSETS
from mirror.protocol.control.offsets import CommittedOffsets, OffsetAnswer, topic_fields

GROUP_ID_NOT_FOUND: Final = 69
"""Error code for a missing group, and for a group of another type."""
NON_EMPTY_GROUP: Final = 68


def share_offsets(group: str) -> Call[CommittedOffsets]:
    """Return a request for all start offsets of a share group. A missing group has none."""

    def read(response: Any) -> CommittedOffsets:
        (found,) = response.groups
        if found.error_code:
            return CommittedOffsets(0 if found.error_code == GROUP_ID_NOT_FOUND else found.error_code, {})
        offsets = {
            TopicPartition(topic.topic_name, partition.partition_index): OffsetAnswer(
                partition.error_code, partition.start_offset, partition.leader_epoch
            )
            for topic in found.topics
            for partition in topic.partitions
            if partition.start_offset >= 0 or partition.error_code
        }
        return CommittedOffsets(0, offsets)

    fields = {"groups": [{"group_id": group, "topics": None}]}
    return Call(*DESCRIBE_SHARE_GROUP_OFFSETS, (0, 1), fields, read, MANY_BYTES)


def alter_share_offsets(
    group: str, offsets: Mapping[TopicPartition, int]
) -> Call[Mapping[TopicPartition, int]]:
    """Return a request that sets start offsets of a share group without members; a missing group is created.

    The response is an error code for each partition.
    """

    def read(response: Any) -> Mapping[TopicPartition, int]:
        if response.error_code:
            return dict.fromkeys(offsets, response.error_code)
        return {
            TopicPartition(topic.topic_name, partition.partition_index): partition.error_code
            for topic in response.responses
            for partition in topic.partitions
        }

    topics = topic_fields(
        offsets,
        lambda place: {"partition_index": place.partition, "start_offset": offsets[place]},
        "topic_name",
    )
    fields = {"group_id": group, "topics": topics}
    return Call(*ALTER_SHARE_GROUP_OFFSETS, (0, 0), fields, read, MANY_BYTES)
