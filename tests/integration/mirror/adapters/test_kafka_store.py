"""The store on Kafka with three real brokers: topics, the loss of a leader, snapshots and a trimmed log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.kafka_store.survey import SharedStoreFacts, shared_store_facts
from mirror.adapters.settings import CoordinationSettings, KafkaCluster
from mirror.errors import NotFound, SessionLost, Unreachable
from tests.kafka_data import admin_client
from tests.patience import PATIENCE_SECONDS, eventually, wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]
TOPIC = "headrace-coordination"


@pytest.fixture
def opened() -> Iterator[Callable[[KafkaCluster], KafkaSession]]:
    """Return a factory of sessions."""
    made: list[KafkaSession] = []

    def make(cluster: KafkaCluster) -> KafkaSession:
        made.append(KafkaSession(cluster, settings()))
        made[-1].start()
        return made[-1]

    yield make
    for session in made:
        session.stop()


def settings() -> CoordinationSettings:
    return CoordinationSettings(
        cluster="c", session_timeout_seconds=30, connect_timeout_seconds=PATIENCE_SECONDS
    )


def facts(cluster: KafkaCluster) -> SharedStoreFacts:
    return shared_store_facts(LoopThread("test"), cluster, settings(), PATIENCE_SECONDS)


def leader(address: str) -> int:
    found = admin_client(address, log_level=0).list_topics(TOPIC, timeout=PATIENCE_SECONDS)
    return found.topics[TOPIC].partitions[0].leader


def written(session: KafkaSession, path: str, data: bytes) -> bool:
    """Whether a node has the data now, after writing it if necessary."""
    try:
        session.sync()
        try:
            node = session.read(path)
        except NotFound:
            session.create(path, data)
            return True
        return node.data == data or session.write(path, data, node.version) > 0
    except (Unreachable, SessionLost):
        return False


def test_the_killed_leader_of_the_log_is_replaced(
    new_kafka: NewKafka, opened: Callable[[KafkaCluster], KafkaSession]
) -> None:
    kafka = new_kafka("store", nodes=3)
    cluster = KafkaCluster(bootstrap_servers=kafka.address)
    one, two = opened(cluster), opened(cluster)
    assert facts(cluster).replicas == 3
    one.create("/live/one", b"", ephemeral=True)
    killed = leader(kafka.address)
    kafka.nodes[killed - 1].kill()
    wait_until(lambda: written(one, "/a", b"1"), "a change after the election")
    assert eventually(lambda: leader(kafka.address) not in (killed, -1), "another leader")
    two.sync()
    assert two.read("/a").data == b"1"
    assert two.children("/live") == ("one",), "no session was lost"


def test_snapshots_trim_the_log_and_others_load_them(
    new_kafka: NewKafka, opened: Callable[[KafkaCluster], KafkaSession]
) -> None:
    kafka = new_kafka("store", nodes=1)
    cluster = KafkaCluster(bootstrap_servers=kafka.address)
    one, noise = opened(cluster), Random(1)
    for number in range(30):
        data = noise.randbytes(900_000)
        assert written(one, f"/n{number % 3}", data)
    expected = {path: one.read(path).data for path in ("/n0", "/n1", "/n2")}
    wait_until(lambda: facts(cluster).start > 0, "a trimmed log")
    two = opened(cluster)
    assert {path: two.read(path).data for path in expected} == expected
    assert written(two, "/n0", b"small")
    one.sync()
    assert one.read("/n0").data == b"small"
