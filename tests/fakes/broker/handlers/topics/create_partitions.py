"""CreatePartitions."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreatePartitionsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_UNKNOWN_TOPIC = 3
_BAD_PARTITIONS = 37


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    results = []
    for one in asked.message.topics:
        error = asked.error(one.name) or _problem(state, one)
        if not error and not asked.message.validate_only:
            state.grow_topic(one.name, one.count)
        results.append(
            CreatePartitionsResponse.CreatePartitionsTopicResult(
                name=one.name, error_code=error, error_message="refused" if error else None
            )
        )
    return CreatePartitionsResponse(results=results)


def _problem(state: ClusterState, one: Any) -> int:
    topic = state.topics.get(one.name)
    if topic is None:
        return _UNKNOWN_TOPIC
    return _BAD_PARTITIONS if one.count <= len(topic.partitions) else 0


HANDLER = Handler(CreatePartitionsRequest, CreatePartitionsResponse, (0, 3), _handle)
