"""Share groups (KIP-932) and streams groups (KIP-1071): topics, start offsets, and commits of others."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest

from mirror.protocol.control.groups import describe_share_group, describe_streams_group
from mirror.protocol.control.offsets import committed_offsets
from mirror.protocol.control.share_groups import (
    GROUP_ID_NOT_FOUND,
    NON_EMPTY_GROUP,
)
from stack.jars.coordinates import NEWER_KAFKA
from stack.kafka import KafkaCluster, NodePorts
from stack.server import Jvm
from tests.contract.kafka.asking import BrokerClient
from tests.contract.kafka.group_offsets import alter, ask, commit, starts
from tests.contract.kafka.heartbeats import share_member, streams_member
from tests.contract.kafka.test_groups import GROUP, UNKNOWN_MEMBER_ID, listed
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


@pytest.fixture
def group(sharing: BrokerClient, topic: str) -> str:
    """Create the topic, and return the name of a group that has a coordinator."""
    sharing.create_topic(topic, 2)
    name = f"{topic}-{uuid4().hex[:4]}"
    sharing.find_coordinator(GROUP, name)
    return name


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
        with streams_member(broker, topic, topic, changelog) as member:
            assert ask(broker, describe_streams_group(topic), 0) == (0, {topic, changelog})
            assert commit(broker, topic, topic, 2, member=member) == 0
            assert commit(broker, topic, topic, 3) == UNKNOWN_MEMBER_ID
        wait_until(lambda: listed(broker, topic) == ("streams", "Empty"))
        assert commit(broker, topic, topic, 3) == 0
        offsets = ask(broker, committed_offsets(topic, None), 7).offsets
        assert [answer.offset for answer in offsets.values()] == [3]
    finally:
        broker.close()
