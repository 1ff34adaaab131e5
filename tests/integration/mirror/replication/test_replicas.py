"""Lanes with a rack read from the nearest replica, follow leaders that move, and survive their failures."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import pytest
from confluent_kafka import ElectionType
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import NewTopic

from mirror.client.access import ClusterAccess, endpoints
from mirror.errors import HeadraceError
from mirror.lane.lane import Lane
from mirror.lane.memory import ReceiveBuffer
from mirror.protocol.fetch import FetchedPartition
from mirror.replication.channels.channel_rules import FetchListener
from mirror.replication.channels.fetch_channel import FetchChannel
from stack.kafka import KafkaCluster
from tests.engines import SOURCE, EngineUnderTest, check_copy, write
from tests.kafka_data import Record, admin_client
from tests.patience import PATIENCE_SECONDS, wait_until
from tests.servers import NewKafka

pytestmark = [pytest.mark.servers, pytest.mark.long, pytest.mark.deep]

NOW = int(time.time() * 1000)
NEAREST = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}


def records(first: int, count: int) -> list[Record]:
    return [
        Record(0, b"k%d" % number, b"v" * 400, (), NOW + number) for number in range(first, first + count)
    ]


def make(cluster: KafkaCluster, topic: str, replicas: Sequence[int]) -> None:
    """Create a topic of one partition with its replicas on these nodes; the first one leads."""
    admin = admin_client(cluster.address)
    admin.create_topics([NewTopic(topic, 1, replica_assignment=[list(replicas)])])[topic].result(
        PATIENCE_SECONDS
    )


def leader(cluster: KafkaCluster, topic: str) -> int:
    admin = admin_client(cluster.address, log_level=0)
    return admin.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions[0].leader


class Served:
    """Counts record bytes by the broker that sent them, and forwards all events."""

    def __init__(self, listener: FetchListener) -> None:
        self._listener = listener
        self.by_broker: Counter[int] = Counter()
        self.answers = 0

    def on_fetched(self, lane: Lane, part: FetchedPartition, slab: ReceiveBuffer, *, squeezed: bool) -> None:
        assert isinstance(lane.reader, FetchChannel)
        self.answers += 1
        if len(part.records):
            self.by_broker[lane.reader.broker] += len(part.records)
        self._listener.on_fetched(lane, part, slab, squeezed=squeezed)

    def on_broken(self, lane: Lane, error: Exception) -> None:
        self._listener.on_broken(lane, error)

    def on_unreceived(self, lanes: Sequence[Lane], error: HeadraceError) -> None:
        self._listener.on_unreceived(lanes, error)

    def on_relocated(self, lane: Lane) -> None:
        self._listener.on_relocated(lane)


def count_served(engine: EngineUnderTest) -> Served:
    """Count from now on, for lanes that have been started."""
    engine.run_until(lambda: SOURCE in engine.engine.lanes.sources, "the source is open")
    source = engine.engine.lanes.sources[SOURCE]
    source.listener = served = Served(source.listener)
    return served


def test_the_nearest_replica_is_read_and_the_leader_when_it_dies(
    new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    cluster = new_kafka("racks", nodes=3, properties=NEAREST)
    make(cluster, "near", [1, 2])
    make(cluster, "near-copy", [1])
    near = ClusterAccess(endpoints(cluster.address), rack="rack-2")
    engine = new_engine(cluster.address, cluster.address, access={SOURCE: near})
    engine.start("near", destination="near-copy")
    served = count_served(engine)
    write(cluster.address, "near", records(0, 2_000), acks="all")
    engine.run_to("near", [2_000])
    assert set(served.by_broker) == {2}, "a broker in another rack served records"
    cluster.nodes[1].kill()
    write(cluster.address, "near", records(2_000, 2_000), retries=1_000)
    engine.run_to("near", [4_000])
    assert served.by_broker[1], "the leader did not replace the dead follower"
    assert check_copy(engine, "near", destination="near-copy") == 4_000
    engine.stop()


def test_a_leader_that_moves_says_where_to(
    new_kafka: NewKafka, new_engine: Callable[..., EngineUnderTest]
) -> None:
    cluster = new_kafka("hints", nodes=3)
    for topic in ("hint", "hint-copy"):
        make(cluster, topic, [1, 2])
    engine = new_engine(cluster.address, cluster.address)
    engine.start("hint", destination="hint-copy")
    write(cluster.address, "hint", records(0, 1_000), acks="all")
    engine.run_to("hint", [1_000])
    cluster.nodes[0].kill()
    write(cluster.address, "hint", records(1_000, 1_000), acks="all", retries=1_000)
    engine.run_to("hint", [2_000])
    cluster.nodes[0].start()
    asked = watch_refreshes(engine)
    move(cluster, ["hint", "hint-copy"], to=1)
    write(cluster.address, "hint", records(2_000, 1_000), acks="all", retries=1_000)
    engine.run_to("hint", [3_000])
    lane = engine.lane("hint")
    assert isinstance(lane.reader, FetchChannel)
    assert lane.writer is not None
    assert (lane.reader.broker, lane.writer.broker) == (1, 1)
    assert not asked, "metadata was requested although the error named the new leader"
    assert check_copy(engine, "hint", destination="hint-copy") == 3_000
    engine.stop()


def watch_refreshes(engine: EngineUnderTest) -> list[str]:
    """Return a list of the topics whose metadata is requested from now on."""
    asked: list[str] = []
    for cluster in engine.context._clusters.values():
        refresh = cluster.refresh

        def noted(topics: Iterable[str], refresh: Callable[..., object] = refresh) -> object:
            names = list(topics)
            asked.extend(name for name in names if name.startswith("hint"))
            return refresh(names)

        cluster.refresh = noted  # type: ignore[assignment,method-assign]
    return asked


def move(cluster: KafkaCluster, topics: Sequence[str], to: int) -> None:
    """Elect the preferred leaders, which are in sync again."""
    admin = admin_client(cluster.address, log_level=0)

    def is_moved() -> bool:
        admin.elect_leaders(ElectionType.PREFERRED, [Place(topic, 0) for topic in topics]).result(
            PATIENCE_SECONDS
        )
        return all(leader(cluster, topic) == to for topic in topics)

    wait_until(is_moved, f"broker {to} leads", interval_seconds=0.5)
