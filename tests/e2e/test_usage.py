"""Usage of a running service equals the bytes that the brokers store."""

from __future__ import annotations

import csv
import io
import os
import subprocess
import sys
from typing import Any

import pytest
from kafka.protocol.admin import DescribeLogDirsRequest, DescribeLogDirsResponse

from headrace.clusters.adhoc import one_off
from mirror.client.cluster import Cluster
from mirror.model.identifiers import ClusterRef
from mirror.protocol.control.call import Call
from tests.e2e.conftest import NewInstance
from tests.kafka_data import Record, make_topic, produce
from tests.metrics_data import fresh_name
from tests.mirrored import create_datastream, wait_until_caught_up
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import KafkaPair

pytestmark = [pytest.mark.servers, pytest.mark.long]


def stored_bytes(address: str, topic: str, partitions: int) -> int:
    """Return the size of a topic's logs on one replica each, according to the brokers."""
    fields = {"topics": [{"topic": topic, "partitions": [*range(partitions)]}]}

    def read(response: Any) -> dict[int, int]:
        return {
            one.partition_index: one.partition_size
            for folder in response.results
            for found in folder.topics
            for one in found.partitions
        }

    call = Call(DescribeLogDirsRequest, DescribeLogDirsResponse, (1, 4), fields, read)

    async def ask(cluster: Cluster) -> int:
        await cluster.refresh([topic])
        sizes: dict[int, int] = {}
        for broker in cluster.brokers:
            sizes |= await cluster.ask(call, broker)
        return sum(sizes.values())

    with one_off(None, "tests", source=address) as bench:
        cluster = bench.cluster(ClusterRef(address))
        return bench.run(cluster.patiently(lambda: ask(cluster)))


def test_usage_equals_the_bytes_on_disk(new_instance: NewInstance, kafka_pair: KafkaPair) -> None:
    name, count = fresh_name("usage"), 2_000
    make_topic(kafka_pair.source.address, name, 2)
    values = [Record(n % 2, b"k%d" % n, os.urandom(500), (), 1_700_000_000_000 + n) for n in range(count)]
    produce(kafka_pair.source.address, name, values, **{"linger.ms": 50, "compression.type": "lz4"})
    prices = {"monitor__usage__per_gb": "1000", "monitor__measurements": "topic"}
    instance = new_instance("one", **prices)
    create_datastream(instance, name, name, policies={"path": "passthrough"})
    wait_until_caught_up(instance, name)

    def lines() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = instance.rest.get("/v1/usage", days=2, datastream=name)["lines"]
        return found if sum(one["records"] for one in found) == count else []

    found = wait_until(lines, "every record is measured")
    measured = sum(one["bytes"] for one in found)
    sides = {kafka_pair.source.address: name, kafka_pair.destination.address: f"copy.{name}"}
    for address, topic in sides.items():
        assert measured == pytest.approx(stored_bytes(address, topic, 2), rel=0.01)
    assert sum(one["cost"] for one in found) == pytest.approx(measured / 10**9 * 1_000)
    assert {one["owner"] for one in found} == {"tests"}
    command = [sys.executable, "-m", "headrace", "usage", "--since", "2d", "--csv", "--at", instance.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=True)
    rows = [one for one in csv.DictReader(io.StringIO(done.stdout)) if one["datastream"] == name]
    assert sum(int(one["bytes"]) for one in rows) == measured
