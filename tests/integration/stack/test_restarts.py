"""Servers that are stopped, killed, frozen and restarted with the same data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from stack import readiness
from stack.errors import NotInTime, PortTaken, ServerDied
from stack.kafka import KafkaCluster
from stack.ports import free_ports
from stack.process.records import identity_of
from stack.process.suspension import freeze
from stack.server import Jvm
from stack.zookeeper import ZooKeeperEnsemble, ZooKeeperServer
from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@contextmanager
def _session(address: str, timeout_seconds: float = 10.0) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address, timeout=timeout_seconds)
    client.start(timeout=PATIENCE_SECONDS)
    with closing(client):
        try:
            yield client
        finally:
            client.stop()


def _produce(address: str, topic: str, values: list[bytes], **more: str) -> None:
    """Send to partition 0 and wait for every acknowledgement."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    producer = Producer(
        {"bootstrap.servers": address, "acks": "all", "linger.ms": 0, "max.in.flight": 1, **settings}
    )
    failures: list[object] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert failures == [None] * len(values)


def _consume(address: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "stack-test", "auto.offset.reset": "earliest"}
    )
    with closing(consumer):
        consumer.subscribe([topic])
        found: list[bytes] = []

        def enough() -> bool:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                found.append(message.value() or b"")
            return len(found) >= count

        wait_until(enough, interval_seconds=0.0)
    return found


def _create(cluster: KafkaCluster, topic: str, replicas: int = 1) -> None:
    admin = admin_client(cluster.address)
    admin.create_topics([NewTopic(topic, 1, replicas)])[topic].result(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("ended_by", [ZooKeeperServer.stop, ZooKeeperServer.kill])
def test_zookeeper_keeps_its_data(
    new_zookeeper: Callable[..., ZooKeeperServer], ended_by: Callable[[ZooKeeperServer], None]
) -> None:
    server = new_zookeeper()
    with _session(server.address) as client:
        client.create_async("/kept", b"as it was").get(timeout=PATIENCE_SECONDS)
    first = server.pid
    ended_by(server)
    assert identity_of(first) is None
    server.start()
    assert server.pid != first
    assert server.role == "standalone"
    with _session(server.address) as client:
        assert client.get_async("/kept").get(timeout=PATIENCE_SECONDS)[0] == b"as it was"


def test_sessions_expire_when_they_should(new_zookeeper: Callable[..., ZooKeeperServer]) -> None:
    """A client may request a timeout of one second, so that no test waits for the default."""
    server = new_zookeeper()
    with _session(server.address) as watcher, _session(server.address, timeout_seconds=1.0) as client:
        client.create_async("/ephemeral", b"", ephemeral=True).get(timeout=PATIENCE_SECONDS)
        asked, password = client.client_id or (0, b"")
        assert asked
        assert password
        server.suspend()
        assert readiness.zookeeper(server.port)
        server.resume()
        wait_until(lambda: not readiness.zookeeper(server.port))
    with _session(server.address) as watcher:
        wait_until(lambda: watcher.exists_async("/ephemeral").get(timeout=PATIENCE_SECONDS) is None)


def test_an_ensemble_survives_its_leader(tmp_path: Path) -> None:
    ensemble = ZooKeeperEnsemble("ensemble", tmp_path / "ensemble")
    try:
        ensemble.start()
        leader = ensemble.leader
        assert leader is not None
        assert sorted(server.role for server in ensemble.servers) == ["follower", "follower", "leader"]
        with _session(ensemble.address) as client:
            client.create_async("/kept", b"by all").get(timeout=PATIENCE_SECONDS)
        leader.kill()
        wait_until(lambda: ensemble.leader not in (None, leader), "another server leads")
        with _session(ensemble.address) as client:
            assert client.get_async("/kept").get(timeout=PATIENCE_SECONDS)[0] == b"by all"
        leader.start()
        assert leader.role == "follower"
    finally:
        ensemble.kill()


def test_kafka_keeps_its_records_and_its_identity(new_kafka: NewKafka) -> None:
    cluster = new_kafka("own", log_segment_bytes=1_048_576)
    _create(cluster, "kept")
    _produce(cluster.address, "kept", [b"before"])
    before = admin_client(cluster.address)
    identity = before.describe_cluster().result(timeout=PATIENCE_SECONDS).cluster_id
    cluster.kill()
    assert not cluster.is_alive()
    cluster.start()
    _produce(cluster.address, "kept", [b"after"])
    cluster.stop()
    cluster.start()
    assert _consume(cluster.address, "kept", 2) == [b"before", b"after"]
    after = admin_client(cluster.address)
    assert after.describe_cluster().result(timeout=PATIENCE_SECONDS).cluster_id == identity


def test_three_brokers_lose_one_and_no_record(new_kafka: NewKafka) -> None:
    cluster = new_kafka("three", nodes=3, min_insync_replicas=2)
    _create(cluster, "replicated", replicas=3)
    _produce(cluster.address, "replicated", [b"by three"])
    victim = cluster.nodes[2]
    victim.kill()
    _produce(cluster.address, "replicated", [b"by two"])
    cluster.nodes[1].suspend()
    cluster.nodes[1].resume()
    victim.start()
    assert cluster.is_alive()
    assert _consume(cluster.address, "replicated", 2) == [b"by three", b"by two"]


def test_a_listener_with_passwords(new_kafka: NewKafka) -> None:
    jaas = f'{_PLAIN} username="admin" password="a" user_admin="a" user_mirror="right";'
    cluster = new_kafka(
        "guarded",
        listeners=["SASL_PLAINTEXT"],
        properties={
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas,
        },
    )
    guarded = cluster.address_of("SASL_PLAINTEXT")
    as_mirror = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": "mirror"}
    _create(cluster, "guarded")
    _produce(guarded, "guarded", [b"let in"], **as_mirror, sasl_password="right")
    refused: list[str] = []
    settings = {key.replace("_", "."): value for key, value in as_mirror.items()}
    client = AdminClient(
        {
            **settings,
            "bootstrap.servers": guarded,
            "sasl.password": "wrong",
            "error_cb": lambda error: refused.append(error.str()),  # type: ignore[dict-item]
        }
    )
    client.poll(0)
    wait_until(lambda: client.poll(0.1) >= 0 and any("Authentication failed" in text for text in refused))


def test_a_zookeeper_that_dies_at_start_shows_its_log(tmp_path: Path) -> None:
    server = ZooKeeperServer("broken", tmp_path, free_ports(1)[0], settings={"tickTime": "soon"})
    with pytest.raises(ServerDied, match=r"broken .* status 2 ") as c:
        server.start()
    assert '"soon"' in str(c.value)
    assert str(server.log_file) in str(c.value)
    assert not server.is_alive()


def test_a_kafka_that_dies_at_start_shows_its_log(new_kafka: NewKafka) -> None:
    cluster = new_kafka("own")
    cluster.stop()
    node = cluster.nodes[0]
    identity = node.folder / "data" / "meta.properties"
    identity.write_text(identity.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(ServerDied, match=r"own .* status 1 ") as caught:
        cluster.start()
    assert re.search(r"\bid 2\b.*\bid 1\b", str(caught.value))


def test_the_next_broker_gets_the_features_of_the_last_and_an_identity_of_its_own(
    new_kafka: NewKafka,
) -> None:
    last, following = new_kafka("last"), new_kafka("next")
    folders = [cluster.nodes[0].folder for cluster in (last, following)]
    assert not (folders[1] / "format.log").exists(), "the tool of Kafka ran again"
    assert len({(folder / "data/bootstrap.checkpoint").read_bytes() for folder in folders}) == 1
    written = [(folder / "data/meta.properties").read_text().splitlines() for folder in folders]
    known = [dict(line.split("=") for line in lines if "=" in line) for lines in written]
    admins = [admin_client(cluster.address) for cluster in (last, following)]
    found = [admin.describe_cluster().result(PATIENCE_SECONDS).cluster_id for admin in admins]
    assert found == [one["cluster.id"] for one in known]
    for name in ("cluster.id", "directory.id"):
        assert len({one[name] for one in known}) == 2, name


def test_a_wrong_property_of_kafka_is_named(new_kafka: NewKafka) -> None:
    with pytest.raises(ServerDied, match=r"format.*num\.io\.threads") as caught:
        new_kafka("own", num_io_threads="none")
    assert "\n" not in str(caught.value)


def test_a_port_taken_while_starting_is_named(tmp_path: Path, zookeeper_server: ZooKeeperServer) -> None:
    server = ZooKeeperServer("second", tmp_path, zookeeper_server.port)
    with pytest.raises(PortTaken, match=rf"port {zookeeper_server.port}, .*java \(process"):
        server.start()


def test_a_server_that_is_never_ready_is_killed(tmp_path: Path) -> None:
    server = ZooKeeperServer("slow", tmp_path, free_ports(1)[0])
    server.launch()
    freeze(server.pid)
    pid = server.pid
    with pytest.raises(NotInTime, match=r"slow .* 0\.2 s .*ZooKeeper"):
        server.wait_until_ready(timeout_seconds=0.2)
    assert identity_of(pid) is None


def test_a_heap_too_small_dies_with_the_reason(tmp_path: Path) -> None:
    server = ZooKeeperServer("tiny", tmp_path, free_ports(1)[0], jvm=Jvm(heap_mib=1))
    with pytest.raises(ServerDied, match=r"[Tt]oo small"):
        server.start()
