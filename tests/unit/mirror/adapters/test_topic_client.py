"""Test writes of records to a topic on a fake broker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from zlib import crc32

import pytest

from mirror.adapters.kafka.topic_client import TopicClient
from mirror.adapters.settings import KafkaCluster
from mirror.errors import Unreachable
from mirror.protocol.batches.records import Record
from tests.fakes.broker.cluster import FakeCluster, running
from tests.fakes.broker.topics import NOBODY

PARTITIONS = 3
OFFLINE = 1


@contextmanager
def offline_partition() -> Iterator[tuple[FakeCluster, TopicClient]]:
    """Yield a cluster with a topic, one of whose partitions has no leader, and a client of the topic."""
    with running(FakeCluster("samples", 1)) as cluster:
        with cluster.lock:
            cluster.create_topic("t", PARTITIONS)
            cluster.move_leader("t", OFFLINE, NOBODY)
            cluster.server.changed()
        client = TopicClient(KafkaCluster(bootstrap_servers=cluster.address), "t", "test", 0.5)
        with closing(client):
            yield cluster, client


def counts(cluster: FakeCluster) -> list[int]:
    with cluster.lock:
        return [cluster.log("t", number).end for number in range(PARTITIONS)]


def test_records_without_a_key_are_written_to_partitions_with_a_leader() -> None:
    with offline_partition() as (cluster, client):
        client.append([Record(0, 7, None, b"%d" % number) for number in range(10)])
        assert counts(cluster) == [5, 0, 5]


def test_a_partition_without_a_leader_prevents_no_writes_to_others_and_nothing_is_repeated() -> None:
    keyed = [Record(0, 7, b"%d" % number, b"v") for number in range(30)]
    places = [crc32(record.key or b"") % PARTITIONS for record in keyed]
    expected = [places.count(number) for number in range(PARTITIONS)]
    with offline_partition() as (cluster, client):
        with pytest.raises(Unreachable, match=r"t-1 of .* has no leader"):
            client.append(keyed)
        assert counts(cluster) == [
            0 if number == OFFLINE else expected[number] for number in range(PARTITIONS)
        ]
