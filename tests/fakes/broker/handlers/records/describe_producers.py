"""DescribeProducers: the producers of a partition and the first offsets of their open transactions."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeProducersResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.records.leadership import judge_leader
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import Partition

_Topic = DescribeProducersResponse.TopicResponse
_Partition = _Topic.PartitionResponse


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    topics = []
    for topic in asked.message.topics:
        answers = []
        for number in topic.partition_indexes:
            partition = state.find((topic.name, number))
            error = asked.error(topic.name, number) or judge_leader(partition, asked.broker, -1)
            producers = [] if error or partition is None else _producers(partition)
            answers.append(
                _Partition(
                    partition_index=number, error_code=error, error_message=None, active_producers=producers
                )
            )
        topics.append(_Topic(name=topic.name, partitions=answers))
    return DescribeProducersResponse(topics=topics)


def _producers(partition: Partition) -> list[Any]:
    return [
        _Partition.ProducerState(
            producer_id=producer,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp,
            coordinator_epoch=0,
            current_txn_start_offset=partition.log.open.get(producer, -1),
        )
        for producer, entry in partition.log.producers.entries.items()
    ]


HANDLER = Handler(DescribeProducersRequest, DescribeProducersResponse, (0, 0), _handle)
