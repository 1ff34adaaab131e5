"""Requests of retirements: members of groups, ACLs without an authorizer, deletion of a topic by id."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from headrace.clusters.adhoc import one_off
from mirror.client.administration.deletion import remove_topic
from mirror.client.cluster import Cluster
from mirror.coordination.topic_retirement import WriteDenial
from mirror.errors import Refused
from mirror.jobs.retirement.steps import allow_writes, current_id, denial_of, deny_writes
from mirror.jobs.retirement.topic_watch import OwnGroups, observe_topics
from mirror.model.identifiers import ClusterRef
from stack.kafka import KafkaCluster
from tests.contract.kafka.asking import BrokerClient
from tests.contract.kafka.test_groups import GROUP, member
from tests.patience import eventually


def run(address: str, question: Any) -> Any:
    with one_off(None, "tests", source=address) as bench:
        return bench.run(question(bench.cluster(ClusterRef(address))))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.servers)])
def address(request: pytest.FixtureRequest) -> str:
    """Return the address of a cluster with one broker and without an authorizer."""
    is_fake = request.param == "fake"
    found: Any = request.getfixturevalue("fake_address" if is_fake else "destination_kafka")
    return str(found) if is_fake else str(found.address)


def test_a_cluster_without_authorizer_has_no_acls(address: str, topic: str) -> None:
    assert run(address, lambda cluster: denial_of(cluster, topic)) is WriteDenial.NO_AUTHORIZER
    run(address, lambda cluster: allow_writes(cluster, topic))
    with pytest.raises(Refused):
        run(address, lambda cluster: deny_writes(cluster, topic))


def test_only_the_topic_with_the_id_is_deleted(address: str, topic: str) -> None:
    broker = BrokerClient(address)
    try:
        broker.create_topic(topic, 1)
    finally:
        broker.close()

    async def delete(cluster: Cluster) -> tuple[str | None, str | None]:
        await remove_topic(cluster, topic, uuid4().hex)
        identity = await current_id(cluster, topic)
        await remove_topic(cluster, topic, identity or "")
        while (after := await current_id(cluster, topic)) == identity:  # until the broker hears of it
            await cluster.loop.sleep(0.05)
        return identity, after

    identity, after = run(address, delete)
    assert identity
    assert after is None


@pytest.mark.servers
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_without_offsets_are_readers(
    destination_kafka: KafkaCluster, topic: str, protocol: str
) -> None:
    broker = BrokerClient(destination_kafka.address)
    try:
        broker.create_topic(topic, 1)
        broker.find_coordinator(GROUP, topic)
    finally:
        broker.close()

    def readers() -> list[tuple[str, bool]]:
        found = run(destination_kafka.address, lambda cluster: observe_topics(cluster, OwnGroups()))
        return [(one.group, one.has_members) for one in found.topics[topic].readers]

    with member(destination_kafka.address, topic, topic, protocol):
        assert eventually(readers, "the member is seen") == [(topic, True)]
