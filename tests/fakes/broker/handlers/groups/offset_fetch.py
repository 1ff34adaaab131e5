"""OffsetFetch for one group (versions up to 7) or several groups per request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_NOT_COORDINATOR = 16
_MANY_GROUPS_FROM = 8
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = _Group.OffsetFetchResponseTopics


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    if asked.version < _MANY_GROUPS_FROM:
        error, found = _answer(state, asked, message.group_id, message.topics)
        topics = [_topic(_Topic, _Topic.OffsetFetchResponsePartition, *part) for part in found.items()]
        return OffsetFetchResponse(topics=topics, error_code=error)
    groups = []
    for group in message.groups:
        error, found = _answer(state, asked, group.group_id, group.topics)
        kinds = _GroupTopic, _GroupTopic.OffsetFetchResponsePartitions
        topics = [_topic(*kinds, *part) for part in found.items()]
        groups.append(_Group(group_id=group.group_id, topics=topics, error_code=error))
    return OffsetFetchResponse(groups=groups)


def _answer(
    state: ClusterState, asked: HandledRequest, group: str, topics: Any
) -> tuple[int, Mapping[str, Mapping[int, int]]]:
    """Return the error code for a group, and the offsets of the requested partitions by topic."""
    kind = state.group_states.get(group, ("Classic", ""))[0]
    known = {} if kind == "Share" else state.groups.get(group, {})
    error = asked.error(group)
    if not error and state.coordinator_of(group) != asked.broker:
        error = _NOT_COORDINATOR
    if error:
        return error, {}
    found: dict[str, dict[int, int]] = {}
    if topics is None:
        for name, number in sorted(known):
            found.setdefault(name, {})[number] = known[name, number]
    else:
        found = {
            topic.name: {number: known.get((topic.name, number), -1) for number in topic.partition_indexes}
            for topic in topics
        }
    return 0, found


def _topic(kind: Any, partition: Any, name: str, offsets: Mapping[int, int]) -> Any:
    return kind(
        name=name,
        partitions=[
            partition(
                partition_index=number,
                committed_offset=offset,
                committed_leader_epoch=-1,
                metadata="",
                error_code=0,
            )
            for number, offset in offsets.items()
        ],
    )


HANDLER = Handler(OffsetFetchRequest, OffsetFetchResponse, (1, 9), _handle)
