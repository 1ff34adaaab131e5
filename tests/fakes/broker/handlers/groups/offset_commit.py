"""OffsetCommit of clients that are not members of the group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_UNKNOWN_TOPIC = 3
_NOT_COORDINATOR = 16
_UNKNOWN_MEMBER_ID = 25
_GROUP_ID_NOT_FOUND = 69
_Topic = OffsetCommitResponse.OffsetCommitResponseTopic


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    group = asked.message.group_id
    kind, what = state.group_states.get(group, ("Classic", "Empty"))
    refused = 0 if what == "Empty" else _UNKNOWN_MEMBER_ID
    refused = _GROUP_ID_NOT_FOUND if kind == "Share" else refused
    misplaced = refused if state.coordinator_of(group) == asked.broker else _NOT_COORDINATOR
    topics = []
    for topic in asked.message.topics:
        answers = []
        for one in topic.partitions:
            place = (topic.name, one.partition_index)
            error = asked.error(*place) or misplaced
            if not error and state.find(place) is None:
                error = _UNKNOWN_TOPIC
            if not error:
                state.groups.setdefault(group, {})[place] = one.committed_offset
            answers.append(
                _Topic.OffsetCommitResponsePartition(
                    partition_index=one.partition_index, error_code=error or asked.error_after(*place)
                )
            )
        topics.append(_Topic(name=topic.name, partitions=answers))
    return OffsetCommitResponse(topics=topics)


HANDLER = Handler(OffsetCommitRequest, OffsetCommitResponse, (2, 8), _handle)
