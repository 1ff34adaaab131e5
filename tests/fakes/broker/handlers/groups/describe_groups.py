"""DescribeGroups, ConsumerGroupDescribe and StreamsGroupDescribe: the topics of a group."""

from __future__ import annotations

import struct
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

from mirror.protocol.control.group_messages import CONSUMER_GROUP_DESCRIBE, STREAMS_GROUP_DESCRIBE
from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_NOT_COORDINATOR = 16
_Group = DescribeGroupsResponse.DescribedGroup
_ConsumerGroup = CONSUMER_GROUP_DESCRIBE.response.DescribedGroup
_StreamsGroup = STREAMS_GROUP_DESCRIBE.response.DescribedGroup


def _error(state: ClusterState, asked: HandledRequest, name: str) -> int:
    error = asked.error(name)
    return error or (0 if state.coordinator_of(name) == asked.broker else _NOT_COORDINATOR)


def _subscription(topics: set[str]) -> bytes:
    names = [name.encode() for name in sorted(topics)]
    parts = [struct.pack(">h", len(name)) + name for name in names]
    return struct.pack(">hi", 1, len(names)) + b"".join(parts) + struct.pack(">i", -1)


def _assignment(topics: set[str]) -> bytes:
    names = [name.encode() for name in sorted(topics)]
    parts = [struct.pack(">h", len(name)) + name + struct.pack(">ii", 1, 0) for name in names]
    return struct.pack(">hi", 1, len(names)) + b"".join(parts) + struct.pack(">i", -1)


def _describe(state: ClusterState, asked: HandledRequest) -> Any:
    (name,) = asked.message.groups
    error = _error(state, asked, name)
    topics = state.group_members.get(name)
    members = []
    if topics is not None and not error:
        member = _Group.DescribedGroupMember(
            member_id="m",
            group_instance_id=None,
            client_id="c",
            client_host="h",
            member_metadata=_subscription(topics),
            member_assignment=_assignment(topics),
        )
        members = [member]
    group = _Group(
        error_code=error,
        error_message=None,
        group_id=name,
        group_state="" if error else state.group_states.get(name, ("", "Empty"))[1],
        protocol_type="" if error else state.protocol_type,
        protocol_data="",
        members=members,
        authorized_operations=set(),
    )
    return DescribeGroupsResponse(groups=[group])


def _describe_consumers(state: ClusterState, asked: HandledRequest) -> Any:
    (name,) = asked.message.group_ids
    error = _error(state, asked, name)
    topics = state.group_members.get(name, set())
    kind = _ConsumerGroup.Member.Assignment
    identities = {topic: state.topics[topic].identity for topic in topics if topic in state.topics}
    assignment = kind(
        topic_partitions=[
            kind.TopicPartitions(topic_id=identity, topic_name=topic, partitions=[0])
            for topic, identity in sorted(identities.items())
        ]
    )
    member = _ConsumerGroup.Member(
        member_id="m",
        instance_id=None,
        rack_id=None,
        member_epoch=1,
        client_id="c",
        client_host="h",
        subscribed_topic_names=[],
        subscribed_topic_regex=None,
        assignment=assignment,
        target_assignment=assignment,
        member_type=1,
    )
    group = _ConsumerGroup(
        error_code=error,
        error_message=None,
        group_id=name,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="uniform",
        members=[] if error else [member],
        authorized_operations=0,
    )
    return CONSUMER_GROUP_DESCRIBE.response(throttle_time_ms=0, groups=[group])


def _describe_streams(state: ClusterState, asked: HandledRequest) -> Any:
    (name,) = asked.message.group_ids
    topics = state.group_members.get(name)
    topology = None
    if topics is not None:
        part = _StreamsGroup.Topology.Subtopology(
            subtopology_id="0",
            source_topics=sorted(topics),
            repartition_sink_topics=[],
            state_changelog_topics=[],
            repartition_source_topics=[],
        )
        topology = _StreamsGroup.Topology(epoch=1, subtopologies=[part])
    group = _StreamsGroup(
        error_code=_error(state, asked, name),
        error_message=None,
        group_id=name,
        group_state="Stable",
        group_epoch=1,
        assignment_epoch=1,
        topology=topology,
        members=[],
        authorized_operations=0,
    )
    return STREAMS_GROUP_DESCRIBE.response(throttle_time_ms=0, groups=[group])


HANDLER = Handler(DescribeGroupsRequest, DescribeGroupsResponse, (0, 5), _describe)
CONSUMERS = Handler(*CONSUMER_GROUP_DESCRIBE, (0, 1), _describe_consumers)
STREAMS = Handler(*STREAMS_GROUP_DESCRIBE, (0, 0), _describe_streams)
