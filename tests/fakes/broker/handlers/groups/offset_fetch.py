"""OffsetFetch for one group per request (versions up to 7)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_NOT_COORDINATOR = 16
_Topic = OffsetFetchResponse.OffsetFetchResponseTopic


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    kind = state.group_states.get(message.group_id, ("Classic", ""))[0]
    known = {} if kind == "Share" else state.groups.get(message.group_id, {})
    error = asked.error(message.group_id)
    if not error and state.coordinator_of(message.group_id) != asked.broker:
        error = _NOT_COORDINATOR
    if error:
        return OffsetFetchResponse(topics=[], error_code=error)
    wanted: dict[str, list[int]] = {}
    if message.topics is None:
        for name, number in sorted(known):
            wanted.setdefault(name, []).append(number)
    else:
        wanted = {topic.name: topic.partition_indexes for topic in message.topics}
    return OffsetFetchResponse(
        topics=[
            _Topic(
                name=name,
                partitions=[
                    _Topic.OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=known.get((name, number), -1),
                        committed_leader_epoch=-1,
                        metadata="",
                        error_code=0,
                    )
                    for number in numbers
                ],
            )
            for name, numbers in wanted.items()
        ],
        error_code=0,
    )


HANDLER = Handler(OffsetFetchRequest, OffsetFetchResponse, (1, 7), _handle)
