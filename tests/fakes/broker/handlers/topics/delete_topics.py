"""DeleteTopics by name, and by id from version 6."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_UNKNOWN_TOPIC = 3
_UNKNOWN_TOPIC_ID = 100
_BY_ID_FROM = 6
_Result = DeleteTopicsResponse.DeletableTopicResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    if asked.message.API_VERSION < _BY_ID_FROM:
        names = {name: name for name in asked.message.topic_names}
        return DeleteTopicsResponse(responses=[_delete(state, asked, name, _UNKNOWN_TOPIC) for name in names])
    found = []
    for one in asked.message.topics:
        topic = state.topic_by_id(one.topic_id)
        found.append(_delete(state, asked, topic.name if topic else "", _UNKNOWN_TOPIC_ID))
    return DeleteTopicsResponse(responses=found)


def _delete(state: ClusterState, asked: HandledRequest, name: str, missing: int) -> Any:
    topic = state.topics.get(name)
    error = asked.error(name) or (0 if topic else missing)
    if not error:
        state.delete_topic(name)
    return _Result(
        name=name or None,
        topic_id=topic.identity if topic else None,
        error_code=error or asked.error_after(name),
        error_message=None,
    )


HANDLER = Handler(DeleteTopicsRequest, DeleteTopicsResponse, (1, 6), _handle)
