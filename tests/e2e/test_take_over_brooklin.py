"""Import of a Brooklin cluster: an instance continues from Brooklin's committed offsets."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from headrace.__main__ import app
from mirror.adapters.settings import ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from stack.zookeeper import ZooKeeperServer
from tests.brooklin_data import a_stream, write_tree
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, make_topic, produce, read_all
from tests.patience import wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.deep]

NOW_MS = 1_795_000_000_000
COMMITTED = {0: 7, 1: 20, 2: 3}
COUNT = 20
HELD = 2
"""Partition that was paused manually."""


def numbered(partition: int, first: int, count: int) -> list[Record]:
    return [Record(partition, b"k", b"%d" % number, (), NOW_MS) for number in range(first, first + count)]


def commit(address: str, group: str, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group, "log_level": 0})
    consumer.commit(
        offsets=[TopicPartition(topic, number, at) for number, at in COMMITTED.items()], asynchronous=False
    )
    consumer.close()


def copied(address: str, topic: str) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {number: [] for number in COMMITTED}
    for record in read_all(address, topic):
        found[record.partition].append(int(record.value or b"-1"))
    return found


def test_mirroring_goes_on_from_brooklins_committed_offsets(
    kafka_pair: KafkaPair, zookeeper_server: ZooKeeperServer, new_instance: NewInstance
) -> None:
    salt = uuid4().hex[:8]
    topic, cluster, root = f"taken-{salt}", f"brooklin-{salt}", f"/headrace-{salt}"
    source, destination = kafka_pair.source.address, kafka_pair.destination.address
    for address in (source, destination):
        make_topic(address, topic, len(COMMITTED))
    for partition, offset in COMMITTED.items():
        produce(source, topic, numbered(partition, 0, COUNT))
        produce(destination, topic, numbered(partition, 0, offset))
    commit(source, f"group-{salt}", topic)
    metadata = {
        "group.id": f"group-{salt}",
        "system.pausedSourcePartitions": json.dumps({topic: [str(HELD)]}),
    }
    brooklin = ZooKeeper(ZooKeeperSettings(servers=zookeeper_server.address, root=f"/{cluster}"))
    brooklin.start()
    write_tree(brooklin, [a_stream(f"stream-{salt}", topic, "READY", source, destination, metadata)])
    brooklin.stop()

    environment = {
        "HEADRACE_ZOOKEEPER__SERVERS": zookeeper_server.address,
        "HEADRACE_ZOOKEEPER__ROOT": root,
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": source,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": destination,
    }
    arguments = ["import-brooklin", zookeeper_server.address, "--cluster", cluster, "--apply"]
    done = CliRunner().invoke(app, arguments, env=environment)
    assert done.exit_code == 0, done.output

    instance = new_instance("one", zookeeper__servers=zookeeper_server.address, zookeeper__root=root)
    wanted = {number: list(range(COUNT)) for number in COMMITTED} | {HELD: list(range(COMMITTED[HELD]))}
    wait_until(
        lambda: copied(destination, topic) == wanted, "the records that Brooklin had not copied arrive"
    )
    path = f"/v1/datastreams/stream-{salt}/resume-partitions"
    instance.rest.post(path, {"partitions": {topic: str(HELD)}})
    wanted[HELD] = list(range(COUNT))
    wait_until(lambda: copied(destination, topic) == wanted, "the paused partition continues too")
