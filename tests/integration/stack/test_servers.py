"""The shared servers are real and respond."""

from __future__ import annotations

import json
import urllib.request

import pytest
from kazoo.client import KazooClient

from stack.pinot import PinotServer
from stack.zookeeper import ZooKeeperServer
from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS
from tests.servers import KafkaPair

pytestmark = pytest.mark.servers


def test_zookeeper_serves_sessions(zookeeper_server: ZooKeeperServer) -> None:
    client = KazooClient(hosts=zookeeper_server.address)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        client.create_async("/stack-test/of-a-session", b"here", makepath=True).get(timeout=PATIENCE_SECONDS)
        assert client.get_async("/stack-test/of-a-session").get(timeout=PATIENCE_SECONDS)[0] == b"here"
    finally:
        client.stop()
        client.close()


def test_the_pair_are_two_clusters_of_one_broker(kafka_pair: KafkaPair) -> None:
    ids = set()
    for cluster in kafka_pair:
        admin = admin_client(cluster.address)
        description = admin.describe_cluster().result(timeout=PATIENCE_SECONDS)
        assert [f"{node.host}:{node.port}" for node in description.nodes] == [cluster.address]
        ids.add(description.cluster_id)
    assert len(ids) == 2


def test_pinot_has_a_controller_a_broker_and_a_server(pinot_server: PinotServer) -> None:
    instances_of = f"http://{pinot_server.controller_address}/instances"
    with urllib.request.urlopen(instances_of, timeout=PATIENCE_SECONDS) as answer:
        instances = json.load(answer)["instances"]
    assert sorted(name.split("_")[0] for name in instances) == ["Broker", "Controller", "Server"]
