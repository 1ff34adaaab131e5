"""Metadata: brokers, and topics with their leaders. Never creates a topic."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from tests.fakes.broker.faults import HandledRequest
from tests.fakes.broker.handlers.entry import Handler
from tests.fakes.broker.state import ClusterState
from tests.fakes.broker.topics import NOBODY, Partition, Topic

_UNKNOWN_TOPIC = 3
_UNKNOWN_ID = 100
_NO_LEADER = 5
_NO_ID = UUID(int=0)
_Topic = MetadataResponse.MetadataResponseTopic


def _handle(state: ClusterState, asked: HandledRequest) -> Any:
    wanted = asked.message.topics
    if wanted is None:
        topics = [_known(state, asked, topic) for topic in state.topics.values()]
    else:
        topics = [_wanted(state, asked, one) for one in wanted]
    live = state.live_brokers()
    return MetadataResponse(
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                node_id=node, host="127.0.0.1", port=state.brokers[node].port, rack=state.brokers[node].rack
            )
            for node in live
        ],
        cluster_id=state.name,
        controller_id=live[0] if live else -1,
        topics=topics,
        error_code=0,
    )


def _wanted(state: ClusterState, asked: HandledRequest, one: Any) -> Any:
    if one.name is None:
        by_id = state.topic_by_id(one.topic_id)
        return _known(state, asked, by_id) if by_id else _missing(None, _UNKNOWN_ID, one.topic_id)
    topic = state.topics.get(one.name)
    return _known(state, asked, topic) if topic else _missing(one.name, _UNKNOWN_TOPIC, _NO_ID)


def _missing(name: str | None, error: int, identity: UUID) -> Any:
    return _Topic(
        error_code=error,
        name=name,
        topic_id=identity,
        is_internal=False,
        partitions=[],
    )


def _known(state: ClusterState, asked: HandledRequest, topic: Topic) -> Any:
    error = asked.error(topic.name)
    if error:
        return _missing(topic.name, error, _NO_ID)
    return _Topic(
        error_code=0,
        name=topic.name,
        topic_id=topic.identity,
        is_internal=topic.name.startswith("__"),
        partitions=[_partition(state, number, one) for number, one in enumerate(topic.partitions)],
    )


def _partition(state: ClusterState, number: int, partition: Partition) -> Any:
    down = [node for node in partition.replicas if state.brokers[node].is_down]
    return _Topic.MetadataResponsePartition(
        error_code=_NO_LEADER if partition.leader == NOBODY else 0,
        partition_index=number,
        leader_id=partition.leader,
        leader_epoch=partition.epoch,
        replica_nodes=partition.replicas,
        isr_nodes=[node for node in partition.in_sync if node not in down],
        offline_replicas=down,
    )


HANDLER = Handler(MetadataRequest, MetadataResponse, (0, 13), _handle)
