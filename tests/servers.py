"""Pytest fixtures of the real servers; tests/conftest.py brings them in.

The session's servers are started on first use, held by the test process (so they end with it in any
case), on free ports, with their data in a temporary folder. Tests share them and use names of their
own. A test that stops or kills a server makes its own with `new_kafka`, `new_zookeeper`, `new_pinot`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import pytest

from stack.errors import StackError
from stack.jars import jar_sets
from stack.jars.java import spark_environment
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.ports import LOOPBACK, free_ports
from stack.process.parallel import for_each
from stack.server import Jvm
from stack.zookeeper import ZooKeeperServer

_KAFKA: Final = Jvm(heap_mib=512, quick_start=True)
_SESSION: Final = {
    "log.retention.ms": -1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 100,
    "num.io.threads": 4,
    "num.network.threads": 2,
}
"""Records carry whatever time a test gives them, and stay; transactions that are too old are aborted soon.
Every thread wakes up also while nobody asks its broker."""
_PINOT: Final = Jvm(heap_mib=256, quick_start=True)


class KafkaPair(NamedTuple):
    """The two clusters that datastreams run between."""

    source: KafkaCluster
    destination: KafkaCluster


class NewKafka(Protocol):
    """Makes and starts a cluster that ends with the test."""

    def __call__(
        self,
        name: str = "kafka",
        *,
        nodes: int = 1,
        listeners: Sequence[str] = (),
        detours: Mapping[str, int] | None = None,
        properties: Mapping[str, object] | None = None,
        **dotted: object,
    ) -> KafkaCluster:
        """`properties` go to server.properties; so do keywords, `log_segment_bytes` as log.segment.bytes.
        `detours`: ports that clients of the one broker's listeners are led to in place of its own."""
        ...


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch the jars before the first test that needs servers: a download must not count as its time."""
    servers = any(item.get_closest_marker("servers") for item in session.items)
    if servers and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        try:
            jar_sets.fetch(report=reporter.write_line if reporter else lambda _: None)
        except StackError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def stack_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the session's servers keep their files."""
    return tmp_path_factory.mktemp("stack")


@pytest.fixture(scope="session")
def stack_jars() -> Callable[[str], tuple[Path, ...]]:
    """`stack_jars("spark")`: the jars of a set, fetched if they are not there."""
    return jar_sets.jar_files


@pytest.fixture(scope="session")
def zookeeper_server(stack_folder: Path) -> Iterator[ZooKeeperServer]:
    """The session's ZooKeeper; `.address`."""
    server = ZooKeeperServer("zookeeper", stack_folder / "zookeeper", free_ports(1)[0])
    server.start()
    yield server
    server.kill()
    server.wipe()


class _Clusters:
    """Starts source and destination side by side when both are asked for."""

    def __init__(self, folder: Path) -> None:
        self._all = {
            name: KafkaCluster(name, folder / name, [NodePorts.free()], jvm=_KAFKA, properties=_SESSION)
            for name in ("source", "destination")
        }

    def running(self, *names: str) -> list[KafkaCluster]:
        wanted = [self._all[name] for name in names]
        for_each([cluster for cluster in wanted if not cluster.is_alive()], KafkaCluster.start)
        return wanted

    def end(self) -> None:
        for_each(self._all.values(), KafkaCluster.kill)
        for_each(self._all.values(), KafkaCluster.wipe)


@pytest.fixture(scope="session")
def _session_clusters(stack_folder: Path) -> Iterator[_Clusters]:
    clusters = _Clusters(stack_folder)
    yield clusters
    clusters.end()


@pytest.fixture(scope="session")
def kafka_pair(_session_clusters: _Clusters) -> KafkaPair:
    """Both clusters of the session, started side by side."""
    return KafkaPair(*_session_clusters.running("source", "destination"))


@pytest.fixture(scope="session")
def source_kafka(_session_clusters: _Clusters) -> KafkaCluster:
    """The session's source cluster, one broker; `.address`."""
    return _session_clusters.running("source")[0]


@pytest.fixture(scope="session")
def destination_kafka(_session_clusters: _Clusters) -> KafkaCluster:
    """The session's destination cluster, one broker; `.address`."""
    return _session_clusters.running("destination")[0]


@pytest.fixture(scope="session")
def pinot_server(stack_folder: Path) -> Iterator[PinotServer]:
    """The session's Pinot; `.controller_address`, `.broker_address`."""
    server = PinotServer("pinot", stack_folder / "pinot", PinotPorts.free(), jvm=_PINOT)
    server.start()
    yield server
    server.kill()
    server.wipe()


@pytest.fixture(scope="session")
def spark_variables() -> dict[str, str]:
    """The environment that PySpark runs with."""
    return spark_environment()


def _advertised(node: NodePorts, detours: Mapping[str, int]) -> dict[str, object]:
    shown = {"PLAINTEXT": node.broker, **(node.extra or {}), **detours}
    return {"advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in shown.items())}


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[NewKafka]:
    """A factory of clusters that belong to one test, which may stop, kill and start them."""
    made: list[KafkaCluster] = []

    def make(
        name: str = "kafka",
        *,
        nodes: int = 1,
        listeners: Sequence[str] = (),
        detours: Mapping[str, int] | None = None,
        properties: Mapping[str, object] | None = None,
        **dotted: object,
    ) -> KafkaCluster:
        ports = [NodePorts.free(listeners) for _ in range(nodes)]
        values: dict[str, object] = {
            **_SESSION,
            **(_advertised(ports[0], detours) if detours else {}),
            **{key.replace("_", "."): value for key, value in dotted.items()},
            **(properties or {}),
        }
        cluster = KafkaCluster(name, tmp_path / f"{name}-{len(made)}", ports, jvm=_KAFKA, properties=values)
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for_each(made, KafkaCluster.kill)
    for_each(made, KafkaCluster.wipe)


@pytest.fixture
def new_zookeeper(tmp_path: Path) -> Iterator[Callable[..., ZooKeeperServer]]:
    """A factory of ZooKeeper servers that belong to one test; `new_zookeeper(name="zookeeper")`."""
    made: list[ZooKeeperServer] = []

    def make(name: str = "zookeeper") -> ZooKeeperServer:
        server = ZooKeeperServer(name, tmp_path / f"{name}-{len(made)}", free_ports(1)[0])
        made.append(server)
        server.start()
        return server

    yield make
    for_each(made, ZooKeeperServer.kill)
    for_each(made, ZooKeeperServer.wipe)


@pytest.fixture
def new_pinot(tmp_path: Path) -> Iterator[Callable[..., PinotServer]]:
    """A factory of Pinots that belong to one test; `new_pinot(name="pinot")`."""
    made: list[PinotServer] = []

    def make(name: str = "pinot") -> PinotServer:
        server = PinotServer(name, tmp_path / f"{name}-{len(made)}", PinotPorts.free(), jvm=_PINOT)
        made.append(server)
        server.start()
        return server

    yield make
    for_each(made, PinotServer.kill)
    for_each(made, PinotServer.wipe)
