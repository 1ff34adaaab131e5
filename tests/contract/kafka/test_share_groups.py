"""Share groups (KIP-932) and streams groups (KIP-1071): topics, start offsets, and commits of others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from mirror.model.topics import TopicPartition
from mirror.protocol.control.call import Call
from mirror.protocol.control.groups import describe_share_group, describe_streams_group
from mirror.protocol.control.offsets import CommittedOffsets, committed_offsets
from mirror.protocol.control.share_groups import (
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
    alter_share_offsets,
    share_offsets,
)
from stack.jars.coordinates import NEWER_KAFKA
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.contract.kafka.asking import BrokerClient, settled
from tests.contract.kafka.heartbeats import share_member, streams_member
from tests.contract.kafka.test_groups import GROUP, NOT_YET, UNKNOWN_MEMBER_ID, commit, listed
from tests.patience import wait_until

UNKNOWN_TOPIC = 3


@pytest.fixture(scope="module")
def newer_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a broker of a release in which both types of groups are stable."""
    jvm = Jvm(heap_mib=320, quick_start=True, jar_set=NEWER_KAFKA)
    cluster = KafkaCluster("newer", tmp_path_factory.mktemp("newer"), [NodePorts.free()], jvm=jvm)
    cluster.start()
    yield cluster.address
    cluster.kill()


REAL = pytest.param("newer_kafka", marks=[pytest.mark.servers, pytest.mark.deep])


@pytest.fixture(params=["fake_address", REAL])
def sharing(request: pytest.FixtureRequest) -> Iterator[BrokerClient]:
    """Return a client of a broker with both types of groups."""
    client = BrokerClient(request.getfixturevalue(request.param))
    yield client
    client.close()


def ask(broker: BrokerClient, call: Call[Any], version: int) -> Any:
    """Send one of our calls and decode the response as Headrace does."""
    return call.read(broker.ask(call.build(version), call.response, version))


@pytest.fixture
def group(sharing: BrokerClient, topic: str) -> str:
    """Create the topic, and return the name of a group that has a coordinator."""
    sharing.create_topic(topic, 2)
    name = f"{topic}-{uuid4().hex[:4]}"
    sharing.find_coordinator(GROUP, name)
    return name


def starts(broker: BrokerClient, group: str, version: int = 0) -> dict[int, int]:
    """Return the start offsets by partition of the only topic."""

    def found() -> tuple[int, CommittedOffsets]:
        answer = ask(broker, share_offsets(group), version)
        return answer.worst, answer

    answers = settled(found, NOT_YET)[1]
    assert answers.worst == 0
    return {place.partition: answer.offset for place, answer in answers.offsets.items()}


def alter(broker: BrokerClient, group: str, *offsets: tuple[str, int, int]) -> list[int]:
    """Set start offsets by (topic, partition, offset); return the error codes."""
    wanted = {TopicPartition(topic, partition): offset for topic, partition, offset in offsets}

    def codes() -> tuple[int, list[int]]:
        found = ask(broker, alter_share_offsets(group, wanted), 0)
        return max(found.values()), [found[place] for place in wanted]

    return settled(codes, NOT_YET)[1]


@pytest.mark.parametrize("version", [0, 1])
def test_start_offsets_make_a_group_and_move_forward_and_back(
    sharing: BrokerClient, topic: str, group: str, version: int
) -> None:
    assert starts(sharing, group, version) == {}
    assert alter(sharing, group, (topic, 0, 5)) == [0]
    assert listed(sharing, group) == ("share", "Empty")
    assert starts(sharing, group, version) == {0: 5}
    assert alter(sharing, group, (topic, 0, 3), (topic, 1, 0)) == [0, 0]
    assert starts(sharing, group, version) == {0: 3, 1: 0}
    assert alter(sharing, group, (topic, 0, 4), ("missing", 0, 1)) == [0, UNKNOWN_TOPIC]
    assert ask(sharing, describe_share_group(group), 1) == (0, frozenset())


def test_a_share_group_takes_no_commit_and_another_group_no_start_offset(
    sharing: BrokerClient, topic: str, group: str
) -> None:
    assert alter(sharing, group, (topic, 0, 5)) == [0]
    assert commit(sharing, group, topic, 3) == GROUP_ID_NOT_FOUND
    assert ask(sharing, committed_offsets(group, None), 7).offsets == {}
    classic = f"{group}-classic"
    assert commit(sharing, classic, topic, 3) == 0
    assert alter(sharing, classic, (topic, 0, 5)) == [GROUP_ID_NOT_FOUND]
    assert starts(sharing, classic) == {}
    assert listed(sharing, classic) == ("classic", "Empty")


@pytest.mark.deep
@pytest.mark.servers
def test_start_offsets_of_a_share_group_with_members_stay(newer_kafka: str, topic: str) -> None:
    broker = BrokerClient(newer_kafka)
    try:
        broker.create_topic(topic, 1)
        broker.find_coordinator(GROUP, topic)
        assert alter(broker, topic, (topic, 0, 5)) == [0]
        with share_member(broker, topic, topic):
            assert listed(broker, topic) == ("share", "Stable")
            assert ask(broker, describe_share_group(topic), 1) == (0, {topic})
            assert alter(broker, topic, (topic, 0, 3)) == [NON_EMPTY_GROUP]
        wait_until(lambda: listed(broker, topic) == ("share", "Empty"))
        assert starts(broker, topic) == {0: 5}
    finally:
        broker.close()


@pytest.mark.deep
@pytest.mark.servers
def test_a_streams_group_is_committed_only_without_members(newer_kafka: str, topic: str) -> None:
    broker = BrokerClient(newer_kafka)
    changelog = f"{topic}-store-changelog"
    try:
        broker.create_topic(topic, 1)
        broker.create_topic(changelog, 1)
        broker.find_coordinator(GROUP, topic)
        with streams_member(broker, topic, topic, changelog):
            assert ask(broker, describe_streams_group(topic), 0) == (0, {topic, changelog})
            assert commit(broker, topic, topic, 3) == UNKNOWN_MEMBER_ID
        wait_until(lambda: listed(broker, topic) == ("streams", "Empty"))
        assert commit(broker, topic, topic, 3) == 0
        offsets = ask(broker, committed_offsets(topic, None), 7).offsets
        assert [answer.offset for answer in offsets.values()] == [3]
    finally:
        broker.close()
