"""Groups: their types and states, and commits by clients that are not members."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import Consumer
from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

from stack.kafka import KafkaCluster
from tests.contract.kafka.asking import BrokerClient
from tests.contract.kafka.group_offsets import commit
from tests.patience import wait_until

GROUP = 0
UNKNOWN_MEMBER_ID = 25


def listed(broker: BrokerClient, group: str) -> tuple[str, str] | None:
    answer = broker.ask(ListGroupsRequest(states_filter=[], types_filter=[]), ListGroupsResponse, 5)
    assert answer.error_code == 0
    found = [(one.group_type.lower(), one.group_state) for one in answer.groups if one.group_id == group]
    return found[0] if found else None


def test_a_commit_of_a_client_makes_a_classic_group_without_members(broker: BrokerClient, topic: str) -> None:
    broker.create_topic(topic, 1)
    broker.find_coordinator(GROUP, topic)
    assert listed(broker, topic) is None
    assert commit(broker, topic, topic, 3) == 0
    assert listed(broker, topic) == ("classic", "Empty")


@contextmanager
def member(address: str, group: str, topic: str, protocol: str) -> Iterator[None]:
    """Keep a member in the group."""
    more = {"session.timeout.ms": 45_000} if protocol == "classic" else {}
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "group.protocol": protocol, **more})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is not None or bool(consumer.assignment()))
        yield
    finally:
        consumer.close()


@pytest.mark.servers
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_not_overwritten(
    destination_kafka: KafkaCluster, topic: str, protocol: str
) -> None:
    """The coordinator itself guards against the race between a look at the members and the commit."""
    broker = BrokerClient(destination_kafka.address)
    try:
        group = f"{topic}-{uuid4().hex[:4]}"
        broker.create_topic(topic, 1)
        broker.find_coordinator(GROUP, group)
        with member(destination_kafka.address, group, topic, protocol):
            assert listed(broker, group) == (protocol, "Stable")
            assert commit(broker, group, topic, 3) == UNKNOWN_MEMBER_ID
        wait_until(lambda: listed(broker, group) == (protocol, "Empty"))
        assert commit(broker, group, topic, 3) == 0
    finally:
        broker.close()
