"""Pytest fixtures of the real servers, loaded by tests/conftest.py.

All tests of a run share one server of each kind (tests/shared_servers.py) and use unique names. A test that
stops or kills a server creates its own with `new_kafka`, `new_zookeeper`, `new_pinot`, which end with the
test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from stack.errors import StackError
from stack.jars import jar_sets
from stack.jars.spark import job_environment
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.ports import LOOPBACK, free_ports
from stack.process.parallel import for_each
from stack.zookeeper import ZooKeeperServer
from tests.shared_servers import BROKER_PROPERTIES, QUICK_KAFKA, QUICK_PINOT, running


class KafkaPair(NamedTuple):
    """Source and destination clusters of datastreams."""

    source: KafkaCluster
    destination: KafkaCluster


class NewKafka(Protocol):
    """Factory of clusters that end with the test."""

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
        """Start a cluster. `properties` and keywords (`log_segment_bytes`) are broker settings.

        `detours`: ports to advertise for the listeners of a single broker.
        """
        ...


def pytest_collection_finish(session: pytest.Session) -> None:
    """Fetch the jars before the first test that needs servers, so that downloads do not count as its time."""
    servers = any(item.get_closest_marker("servers") for item in session.items)
    if servers and not session.config.option.collectonly:
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        try:
            jar_sets.fetch(report=reporter.write_line if reporter else lambda _: None)
        except StackError as error:
            raise pytest.UsageError(str(error)) from error


@pytest.fixture(scope="session")
def stack_jars() -> Callable[[str], tuple[Path, ...]]:
    """Return the jars of a set, fetched if missing: `stack_jars("spark")`."""
    return jar_sets.jar_files


@pytest.fixture(scope="session")
def zookeeper_server(pytestconfig: pytest.Config) -> ZooKeeperServer:
    """Return the shared ZooKeeper; `.address`."""
    server: ZooKeeperServer = running(pytestconfig, "zookeeper")[0]
    return server


@pytest.fixture(scope="session")
def kafka_pair(pytestconfig: pytest.Config) -> KafkaPair:
    """Return both shared clusters, started in parallel."""
    return KafkaPair(*running(pytestconfig, "source", "destination"))


@pytest.fixture(scope="session")
def source_kafka(pytestconfig: pytest.Config) -> KafkaCluster:
    """Return the shared source cluster with one broker; `.address`."""
    cluster: KafkaCluster = running(pytestconfig, "source")[0]
    return cluster


@pytest.fixture(scope="session")
def destination_kafka(pytestconfig: pytest.Config) -> KafkaCluster:
    """Return the shared destination cluster with one broker; `.address`."""
    cluster: KafkaCluster = running(pytestconfig, "destination")[0]
    return cluster


@pytest.fixture(scope="session")
def pinot_server(pytestconfig: pytest.Config) -> PinotServer:
    """Return the shared Pinot; `.controller_address`, `.broker_address`."""
    server: PinotServer = running(pytestconfig, "pinot")[0]
    return server


@pytest.fixture(scope="session")
def spark_variables() -> dict[str, str]:
    """Return the environment of PySpark and of the metrics job."""
    return job_environment()


def _advertised(node: NodePorts, detours: Mapping[str, int]) -> dict[str, object]:
    shown = {"PLAINTEXT": node.broker, **(node.extra or {}), **detours}
    return {"advertised.listeners": ",".join(f"{name}://{LOOPBACK}:{port}" for name, port in shown.items())}


@pytest.fixture
def new_kafka(tmp_path: Path) -> Iterator[NewKafka]:
    """Return a factory of clusters for one test, which may stop, kill and start them."""
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
            **BROKER_PROPERTIES,
            **(_advertised(ports[0], detours) if detours else {}),
            **{key.replace("_", "."): value for key, value in dotted.items()},
            **(properties or {}),
        }
        cluster = KafkaCluster(
            name, tmp_path / f"{name}-{len(made)}", ports, jvm=QUICK_KAFKA, properties=values
        )
        made.append(cluster)
        cluster.start()
        return cluster

    yield make
    for_each(made, KafkaCluster.kill)
    for_each(made, KafkaCluster.wipe)


@pytest.fixture
def new_zookeeper(tmp_path: Path) -> Iterator[Callable[..., ZooKeeperServer]]:
    """Return a factory of ZooKeeper servers for one test: `new_zookeeper(name="zookeeper")`."""
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
    """Return a factory of Pinot servers for one test: `new_pinot(name="pinot")`."""
    made: list[PinotServer] = []

    def make(name: str = "pinot") -> PinotServer:
        server = PinotServer(name, tmp_path / f"{name}-{len(made)}", PinotPorts.free(), jvm=QUICK_PINOT)
        made.append(server)
        server.start()
        return server

    yield make
    for_each(made, PinotServer.kill)
    for_each(made, PinotServer.wipe)
