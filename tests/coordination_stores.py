"""Servers of a coordination store, for runs that work with any store of several instances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import Consumer, ElectionType, KafkaError, KafkaException, TopicPartition

from headrace.coordination.client import CoordinationClient
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.settings import CoordinationSettings, KafkaCluster, ZooKeeperSettings
from mirror.adapters.zookeeper import ZooKeeper
from mirror.errors import NotFound, SessionLost, Unreachable
from stack.kafka import KafkaCluster as KafkaServers
from stack.kafka import NodePorts
from stack.ports import free_ports
from stack.server import Jvm, Server
from stack.zookeeper import ZooKeeperServer
from tests.kafka_data import admin_client

NewSession = Callable[..., CoordinationClient]
"""Returns a session that is not started; its argument is the session timeout in seconds."""
Wait = Callable[[float], None]
"""Sleeps for some seconds; raises if the run is aborted meanwhile."""
_CLUSTER: Final = "store"
_SECONDS: Final = 5.0
"""Timeout of one request of an administrator."""
_NOISE: Final = "/noise"
_NOISE_BYTES: Final = 900_000


def store_servers(name: str, folder: Path) -> StoreServers:
    """Return the servers of the store with that name: `zookeeper`, or `kafka` for a cluster of three."""
    return KafkaStore(folder) if name == "kafka" else ZooKeeperStore(folder)


class StoreServers(ABC):
    """Servers of one store, not started."""

    title: str
    """Name in output."""

    def __init__(self, servers: Mapping[str, Server], session: NewSession) -> None:
        self.servers = servers
        """Servers by name."""
        self.session = session
        """Factory of sessions, which can be passed to another process."""

    @abstractmethod
    def environment(self, session_timeout_seconds: float) -> Mapping[str, str]:
        """Return the settings of an instance that uses the store."""

    @abstractmethod
    def victim(self, choice: float, wait: Wait) -> Server:
        """Return the server to disturb; `choice` is from 0 to 1."""

    @abstractmethod
    def settle(self, wait: Wait) -> None:
        """Restore the preferred roles of the servers after all have returned."""


class ZooKeeperStore(StoreServers):
    """One ZooKeeper server. `settings`: keys of zoo.cfg."""

    title = "ZooKeeper"

    def __init__(self, folder: Path, settings: Mapping[str, object] | None = None) -> None:
        self.server = ZooKeeperServer("zookeeper", folder / "zookeeper", free_ports(1)[0], settings=settings)
        super().__init__({"zookeeper": self.server}, partial(zookeeper_session, self.server.address))

    def environment(self, session_timeout_seconds: float) -> Mapping[str, str]:
        return {
            "HEADRACE_ZOOKEEPER__SERVERS": self.server.address,
            "HEADRACE_ZOOKEEPER__SESSION_TIMEOUT_SECONDS": f"{session_timeout_seconds}",
        }

    def victim(self, choice: float, wait: Wait) -> Server:
        return self.server

    def settle(self, wait: Wait) -> None:
        """Do nothing: a single server has no roles."""


class KafkaStore(StoreServers):
    """A Kafka cluster with the topics of the store only."""

    title = "the store on Kafka"

    def __init__(self, folder: Path, nodes: int = 3, *, jvm: Jvm | None = None) -> None:
        ports = [NodePorts.free() for _ in range(nodes)]
        self.cluster = KafkaServers(
            _CLUSTER, folder / _CLUSTER, ports, jvm=jvm or Jvm(heap_mib=256, quick_start=True)
        )
        self.topic = CoordinationSettings().topic
        servers = {node.name: node for node in self.cluster.nodes}
        super().__init__(servers, partial(kafka_session, self.cluster.address))

    def environment(self, session_timeout_seconds: float) -> Mapping[str, str]:
        return {
            f"HEADRACE_CLUSTERS__{_CLUSTER.upper()}__BOOTSTRAP_SERVERS": self.cluster.address,
            "HEADRACE_COORDINATION__CLUSTER": _CLUSTER,
            "HEADRACE_COORDINATION__SESSION_TIMEOUT_SECONDS": f"{session_timeout_seconds}",
        }

    def victim(self, choice: float, wait: Wait) -> Server:
        """Return the leader of the log in half of the cases, otherwise another broker."""
        nodes = self.cluster.nodes
        leader = self._leader(wait)
        others = [node for node in nodes if node.node_id != leader]
        is_leader = choice < 0.5 or not others
        return nodes[leader - 1] if is_leader else others[int(choice * 1_000) % len(others)]

    def settle(self, wait: Wait) -> None:
        """Elect the preferred leader of the log, once it is in sync again."""
        admin = admin_client(self.cluster.address, log_level=0)
        place = TopicPartition(self.topic, 0)
        while True:
            try:
                refusal = admin.elect_leaders(ElectionType.PREFERRED, [place]).result(_SECONDS)[place]
            except (TimeoutError, KafkaException):  # there is no controller yet
                pass
            else:
                if refusal is None or refusal.code() == KafkaError.ELECTION_NOT_NEEDED:
                    return
            wait(0.5)

    def trim(self, wait: Wait) -> None:
        """Write changes until the log is trimmed behind its present end."""
        before, noise = self.log_range(wait)[1], Random(1)
        session = self.session()
        session.start()
        try:
            while self.log_range(wait)[0] < before:
                if not _written(session, noise.randbytes(_NOISE_BYTES)):
                    wait(0.5)
        finally:
            session.stop()

    def log_bytes(self) -> int:
        """Return the size of the log on the disk of the first broker."""
        segments = (self.cluster.nodes[0].folder / "data" / f"{self.topic}-0").glob("*.log")
        return sum(segment.stat().st_size for segment in segments)

    def log_range(self, wait: Wait) -> tuple[int, int]:
        """Return the first offset and the end of the log."""
        consumer = Consumer({"bootstrap.servers": self.cluster.address, "group.id": "none", "log_level": 0})
        try:
            while True:
                try:
                    return consumer.get_watermark_offsets(TopicPartition(self.topic, 0), _SECONDS)
                except KafkaException:
                    wait(0.5)
        finally:
            consumer.close()

    def _leader(self, wait: Wait) -> int:
        """Return the node id of the leader of the log, after an election that is under way."""
        admin = admin_client(self.cluster.address, log_level=0)
        while True:
            try:
                topic = admin.list_topics(self.topic, timeout=_SECONDS).topics[self.topic]
                leader = topic.partitions[0].leader if topic.partitions else -1
            except KafkaException:
                leader = -1
            if leader > 0:
                return int(leader)
            wait(0.5)


def zookeeper_session(address: str, session_timeout_seconds: float = 6.0) -> ZooKeeper:
    """Return a new session with a ZooKeeper, not started."""
    return ZooKeeper(ZooKeeperSettings(servers=address, session_timeout_seconds=session_timeout_seconds))


def kafka_session(address: str, session_timeout_seconds: float = 6.0) -> KafkaSession:
    """Return a new session with the store of a cluster, not started."""
    settings = CoordinationSettings(
        cluster=_CLUSTER, session_timeout_seconds=session_timeout_seconds, connect_timeout_seconds=60
    )
    return KafkaSession(KafkaCluster(bootstrap_servers=address), settings)


def _written(session: CoordinationClient, data: bytes) -> bool:
    """Write the node that only makes the log longer; return whether that succeeded."""
    try:
        session.sync()
        try:
            node = session.read(_NOISE)
        except NotFound:
            session.create(_NOISE, data)
        else:
            session.write(_NOISE, data, node.version)
    except (Unreachable, SessionLost):
        return False
    return True
