"""DeleteRecords."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.records.leadership import judge_leader
from tests.fakes.broker.state import ClusterState

_OUT_OF_RANGE = 1
_POLICY_VIOLATION = 44
_HIGH_WATERMARK = -1
_Topic = DeleteRecordsResponse.DeleteRecordsTopicResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    topics = [
        _Topic(
            name=topic.name,
            partitions=[
                _delete(state, asked, topic.name, one.partition_index, one.offset) for one in topic.partitions
            ],
        )
        for topic in asked.message.topics
    ]
    return DeleteRecordsResponse(topics=topics)


def _delete(state: ClusterState, asked: HandledRequest, name: str, number: int, before: int) -> Any:
    partition = state.find((name, number))
    error = asked.error(name, number) or judge_leader(partition, asked.broker, -1)
    low = -1
    if not error and partition is not None:
        log = partition.log
        before = log.high_watermark if before == _HIGH_WATERMARK else before
        if "delete" not in state.topics[name].setting("cleanup.policy"):
            error = _POLICY_VIOLATION
        elif not 0 <= before <= log.high_watermark:
            error = _OUT_OF_RANGE
        else:
            log.delete_before(before)
            low = log.start
    error = error or asked.error_after(name, number)
    return _Topic.DeleteRecordsPartitionResult(partition_index=number, low_watermark=low, error_code=error)


HANDLER = Handler(DeleteRecordsRequest, DeleteRecordsResponse, (0, 2), _handle)
