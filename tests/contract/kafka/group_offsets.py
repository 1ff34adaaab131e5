"""Positions of groups of all types, read and set by a client that is not a member, or in the name of one."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import Call
from mirror.protocol.control.offsets import CommittedOffsets
from mirror.protocol.control.share_groups import alter_share_offsets, share_offsets
from tests.contract.kafka.asking import BrokerClient, settled

NOT_YET: Final = frozenset({14, 15, 16})
"""Error codes of brokers while a coordinator is being created."""

_OF_CLIENTS: Final = 8
_OF_MEMBERS: Final = 9
"""First version of OffsetCommit with which a member of KIP-848 or KIP-1071 may commit."""


class Member(NamedTuple):
    """Member of a group, with its epoch."""

    identity: str
    epoch: int


def ask(broker: BrokerClient, call: Call[Any], version: int) -> Any:
    """Send one of our calls and decode the response as Headrace does."""
    return call.read(broker.ask(call.message(version), call.response, version))


def commit(
    broker: BrokerClient,
    group: str,
    topic: str,
    offset: int,
    partition: int = 0,
    member: Member | None = None,
) -> int:
    """Commit a position as a member, or as a client that is not a member; return the error code."""
    identity, epoch = member or ("", -1)
    topics = OffsetCommitRequest.OffsetCommitRequestTopic
    place = topics.OffsetCommitRequestPartition(
        partition_index=partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=identity,
        group_instance_id=None,
        topics=[topics(name=topic, partitions=[place])],
    )

    def code() -> tuple[int]:
        answer = broker.ask(request, OffsetCommitResponse, _OF_MEMBERS if identity else _OF_CLIENTS)
        return (answer.topics[0].partitions[0].error_code,)

    return settled(code, NOT_YET)[0]


def starts(broker: BrokerClient, group: str, version: int = 0) -> dict[int, int]:
    """Return the start offsets by partition of the only topic."""
    answers: list[CommittedOffsets] = []

    def error() -> tuple[int]:
        answers.append(ask(broker, share_offsets(group), version))
        return (answers[-1].worst,)

    assert settled(error, NOT_YET) == (0,)
    return {place.partition: answer.offset for place, answer in answers[-1].offsets.items()}


def alter(broker: BrokerClient, group: str, *offsets: tuple[str, int, int]) -> list[int]:
    """Set start offsets by (topic, partition, offset); return the error codes."""
    wanted = {TopicPartition(topic, partition): offset for topic, partition, offset in offsets}

    def codes() -> tuple[int, ...]:
        found = ask(broker, alter_share_offsets(group, wanted), 0)
        return (max(found.values()), *(found[place] for place in wanted))

    return list(settled(codes, NOT_YET)[1:])
