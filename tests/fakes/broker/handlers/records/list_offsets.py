"""ListOffsets: earliest, earliest local, latest, and by timestamp."""

from __future__ import annotations

from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.records.leadership import judge_leader
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import Partition

_LATEST = -1
_EARLIEST = -2
_EARLIEST_LOCAL = -4
_FIRST_WITH_TIERS = 8
_UNSUPPORTED_VERSION = 35
_COMMITTED = 1
_Topic = ListOffsetsResponse.ListOffsetsTopicResponse


class _Found(NamedTuple):
    offset: int = -1
    timestamp: int = -1
    epoch: int = -1


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    committed = asked.message.isolation_level == _COMMITTED
    topics = []
    for topic in asked.message.topics:
        answers = []
        for one in topic.partitions:
            partition = state.find((topic.name, one.partition_index))
            error = asked.error(topic.name, one.partition_index)
            error = error or judge_leader(partition, asked.broker, one.current_leader_epoch)
            if one.timestamp == _EARLIEST_LOCAL and asked.version < _FIRST_WITH_TIERS:
                error = error or _UNSUPPORTED_VERSION
            found = _Found()
            if not error and partition is not None:
                found = _look_up(partition, one.timestamp, committed=committed)
            answers.append(
                _Topic.ListOffsetsPartitionResponse(
                    partition_index=one.partition_index,
                    error_code=error,
                    timestamp=found.timestamp,
                    offset=found.offset,
                    leader_epoch=found.epoch,
                )
            )
        topics.append(_Topic(name=topic.name, partitions=answers))
    return ListOffsetsResponse(topics=topics)


def _look_up(partition: Partition, when: int, *, committed: bool) -> _Found:
    log = partition.log
    if when == _LATEST:
        return _Found(log.bound(committed=committed), -1, partition.epoch)
    if when == _EARLIEST:
        return _Found(log.start, -1, log.epoch_at(log.start))
    if when == _EARLIEST_LOCAL:
        first = max(log.start, log.tiered_to)
        return _Found(first, -1, log.epoch_at(first))
    found = log.find_time(when)
    if found is None or found[0] >= log.bound(committed=committed):
        return _Found()
    return _Found(*found)


HANDLER = Handler(ListOffsetsRequest, ListOffsetsResponse, (1, 8), _handle)
