"""Test that clients never connect to advertised listeners that the settings do not allow."""

from __future__ import annotations

import pytest

from headrace.clusters.directory import ClusterDirectory
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.client.access import ClusterAccess, endpoints
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.control.cluster import Endpoint
from tests.fakes.broker.cluster import FakeCluster, running

PRODUCTION = KafkaCluster(bootstrap_servers="kafka-1:9092", advertised=["kafka-*:9092"])


@pytest.mark.parametrize(
    ("host", "port", "is_allowed"),
    [
        ("proxy.example.com", 9092, True),
        ("PROXY.example.com", 9092, True),
        ("kafka-1", 9092, False),
        ("kafka-7", 9092, False),
        ("10.0.0.1", 22, False),
        ("proxy.example.com", 22, False),
    ],
)
def test_brokers_of_an_address_keep_to_its_patterns_and_off_aliases(
    host: str, port: int, is_allowed: bool
) -> None:
    directory = ClusterDirectory({"production": PRODUCTION}, ["*.example.com:9092", "kafka-*:9092"])
    found = directory.resolve(ClusterRef("proxy.example.com:9092"))
    access = ClusterAccess(endpoints(found.bootstrap_servers), advertised=tuple(found.advertised))
    assert access.may_reach(Endpoint(host, port)) is is_allowed


def test_an_alias_without_patterns_takes_every_listener() -> None:
    access = ClusterAccess(endpoints("kafka-1:9092"))
    assert access.may_reach(Endpoint("elsewhere", 1))


@pytest.mark.parametrize("allowed", [["127.0.0.1:*"], ["localhost:1"], ["!127.0.0.1:*", "*"]])
def test_a_listener_that_is_not_allowed_is_not_reached(allowed: list[str]) -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create_topic("t", 2, 1)
    first = cluster.address.partition(",")[0]
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=first, advertised=allowed))
    partitions = [TopicPartition("t", number) for number in range(2)]
    with running(cluster):
        found = admin.positions("g", partitions)
        admin.close()
    assert len(found) == (2 if allowed[0].startswith("127") else 1)
