"""OffsetForLeaderEpoch (KIP-320): the end offset of an epoch."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.handlers.records.leadership import judge_leader
from tests.fakes.broker.state import ClusterState

_Topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    topics = []
    for topic in asked.message.topics:
        answers = []
        for one in topic.partitions:
            partition = state.find((topic.topic, one.partition))
            error = asked.error(topic.topic, one.partition)
            error = error or judge_leader(partition, asked.broker, one.current_leader_epoch)
            epoch, end = (-1, -1)
            if not error and partition is not None:
                epoch, end = partition.log.end_of_epoch(one.leader_epoch)
                if epoch == partition.epoch:
                    end = partition.log.high_watermark  # never beyond the high watermark
            answers.append(
                _Topic.EpochEndOffset(
                    error_code=error, partition=one.partition, leader_epoch=epoch, end_offset=end
                )
            )
        topics.append(_Topic(topic=topic.topic, partitions=answers))
    return OffsetForLeaderEpochResponse(topics=topics)


HANDLER = Handler(OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, (2, 4), _handle)
