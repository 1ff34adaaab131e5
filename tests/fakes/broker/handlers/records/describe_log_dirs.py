"""DescribeLogDirs: one directory, in which each record takes a byte."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState

_Result = DescribeLogDirsResponse.DescribeLogDirsResult
_Topic = _Result.DescribeLogDirsTopic


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    error = asked.error()
    topics = [
        _Topic(
            name=topic.name,
            partitions=[
                _Topic.DescribeLogDirsPartition(
                    partition_index=number,
                    partition_size=partition.log.high_watermark - partition.log.start,
                    offset_lag=0,
                    is_future_key=False,
                )
                for number, partition in enumerate(topic.partitions)
                if asked.broker in partition.replicas
            ],
        )
        for topic in state.topics.values()
    ]
    result = _Result(error_code=0, log_dir="/data", topics=topics, total_bytes=-1, usable_bytes=-1)
    return DescribeLogDirsResponse(error_code=error, results=[] if error else [result])


HANDLER = Handler(DescribeLogDirsRequest, DescribeLogDirsResponse, (1, 4), _handle)
