"""Test that clients never connect to advertised listeners that the settings do not allow."""

from __future__ import annotations

import time
from typing import Any

import pytest

from headrace.clusters.directory import ClusterDirectory
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.settings import KafkaCluster
from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import TimedOut, Unreachable
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.protocol.control.cluster import Endpoint
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.faults import Edit

METADATA = 3

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


def test_the_deadline_of_a_call_ends_the_retries_of_unreachable_listeners() -> None:
    cluster = FakeCluster()
    cluster.create_topic("t", 1, 1)

    def advertise(answer: Any) -> None:
        for broker in answer.brokers:
            broker.port = 1

    cluster.faults.plant(METADATA, Edit(advertise), times=None)
    admin = KafkaAdmin(KafkaCluster(bootstrap_servers=cluster.address), deadline_seconds=1.0)
    with running(cluster):
        began = time.monotonic()
        with pytest.raises(
            Unreachable, match=r"cannot connect to 127\.0\.0\.1:1: Connection refused"
        ) as caught:
            admin.delete("t")
        took = time.monotonic() - began
        admin.close()
    assert not isinstance(caught.value, TimedOut)
    assert took < 1.0
