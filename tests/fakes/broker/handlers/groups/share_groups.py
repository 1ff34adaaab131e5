"""Share groups: their members, and their start offsets, which are in `ClusterState.groups`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from mirror.protocol.control.group_messages import (
    ALTER_SHARE_GROUP_OFFSETS,
    DESCRIBE_SHARE_GROUP_OFFSETS,
    SHARE_GROUP_DESCRIBE,
)
from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_UNKNOWN_TOPIC = 3
_NOT_COORDINATOR = 16
_NON_EMPTY_GROUP = 68
_GROUP_ID_NOT_FOUND = 69
_Described = SHARE_GROUP_DESCRIBE.response.DescribedGroup
_Starts = DESCRIBE_SHARE_GROUP_OFFSETS.response.DescribedGroup
_Altered = ALTER_SHARE_GROUP_OFFSETS.response.AlteredTopic


def _error(state: ClusterState, asked: HandledRequest, name: str) -> int:
    error = asked.error(name) or (0 if state.coordinator_of(name) == asked.broker else _NOT_COORDINATOR)
    is_share = state.group_states.get(name, ("Classic", ""))[0] == "Share"
    return error or (0 if is_share else _GROUP_ID_NOT_FOUND)


def _identity(state: ClusterState, topic: str) -> UUID:
    return state.topics[topic].identity if topic in state.topics else UUID(int=0)


def _describe(state: ClusterState, asked: HandledRequest) -> Any:
    (name,) = asked.message.group_ids
    topics = state.group_members.get(name)
    members = []
    if topics is not None:
        kind = _Described.Member
        places = [
            kind.Assignment.TopicPartitions(
                topic_id=_identity(state, topic), topic_name=topic, partitions=[0]
            )
            for topic in sorted(topics)
        ]
        member = kind(
            member_id="m",
            rack_id=None,
            member_epoch=1,
            client_id="c",
            client_host="h",
            subscribed_topic_names=sorted(topics),
            assignment=kind.Assignment(topic_partitions=places),
        )
        members = [member]
    group = _Described(
        error_code=_error(state, asked, name),
        error_message=None,
        group_id=name,
        group_state=state.group_states.get(name, ("", ""))[1],
        group_epoch=1,
        assignment_epoch=1,
        assignor_name="simple",
        members=members,
        authorized_operations=0,
    )
    return SHARE_GROUP_DESCRIBE.response(throttle_time_ms=0, groups=[group])


def _offsets(state: ClusterState, asked: HandledRequest) -> Any:
    (group,) = asked.message.groups
    name = group.group_id
    error = _error(state, asked, name)
    topics = [
        _Starts.Topic(
            topic_name=topic,
            topic_id=_identity(state, topic),
            partitions=[
                _Starts.Topic.StartOffset(
                    partition_index=partition,
                    start_offset=offset,
                    leader_epoch=0,
                    lag=-1,
                    error_code=0,
                    error_message=None,
                )
            ],
        )
        for (topic, partition), offset in sorted(state.groups.get(name, {}).items())
    ]
    found = _Starts(group_id=name, topics=[] if error else topics, error_code=error, error_message=None)
    return DESCRIBE_SHARE_GROUP_OFFSETS.response(throttle_time_ms=0, groups=[found])


def _alter(state: ClusterState, asked: HandledRequest) -> Any:
    name = asked.message.group_id
    is_missing = name not in state.groups and name not in state.group_states
    error = _error(state, asked, name)
    if is_missing and error == _GROUP_ID_NOT_FOUND:
        error = 0
    if not error and state.group_states.get(name, ("", "Empty"))[1] != "Empty":
        error = _NON_EMPTY_GROUP
    topics = []
    for topic in () if error or state.ignores_start_offsets else asked.message.topics:
        answers = []
        for partition in topic.partitions:
            place = (topic.topic_name, partition.partition_index)
            unknown = _UNKNOWN_TOPIC if state.find(place) is None else 0
            if not unknown:
                state.group_states.setdefault(name, ("Share", "Empty"))
                state.groups.setdefault(name, {})[place] = partition.start_offset
            answers.append(_Altered.Outcome(partition_index=place[1], error_code=unknown, error_message=None))
        identity = _identity(state, topic.topic_name)
        topics.append(_Altered(topic_name=topic.topic_name, topic_id=identity, partitions=answers))
    error = error or asked.error_after(name)
    return ALTER_SHARE_GROUP_OFFSETS.response(
        throttle_time_ms=0, error_code=error, error_message=None, responses=[] if error else topics
    )


HANDLERS = (
    Handler(*SHARE_GROUP_DESCRIBE, (1, 1), _describe),
    Handler(*DESCRIBE_SHARE_GROUP_OFFSETS, (0, 1), _offsets),
    Handler(*ALTER_SHARE_GROUP_OFFSETS, (0, 0), _alter),
)
