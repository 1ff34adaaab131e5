"""AddPartitionsToTxn from clients (versions up to 3)."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.transactions import FENCED, NOT_ATTEMPTED, UNKNOWN_PARTITION

_NOT_COORDINATOR = 16
_OLD_EPOCH = 47
_FENCED_FROM = 2
_Topic = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
_Partition = _Topic.AddPartitionsToTxnPartitionResult


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    message = asked.message
    name = message.v3_and_below_transactional_id
    places = [(topic.name, n) for topic in message.v3_and_below_topics for n in topic.partitions]
    missing = {place for place in places if state.find(place) is None}
    if missing:
        codes = {place: UNKNOWN_PARTITION if place in missing else NOT_ATTEMPTED for place in places}
    else:
        error = asked.error(name)
        if not error and state.coordinator_of(name) != asked.broker:
            error = _NOT_COORDINATOR
        if not error:
            producer, epoch = message.v3_and_below_producer_id, message.v3_and_below_producer_epoch
            error = state.coordinator.add(name, producer, epoch, places) or asked.error_after(name)
        if error == FENCED and asked.version < _FENCED_FROM:
            error = _OLD_EPOCH
        codes = dict.fromkeys(places, error)
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            _Topic(
                name=topic.name,
                results_by_partition=[
                    _Partition(partition_index=n, partition_error_code=codes[topic.name, n])
                    for n in topic.partitions
                ],
            )
            for topic in message.v3_and_below_topics
        ]
    )


HANDLER = Handler(AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, (0, 3), _handle)
