"""Pytest fixtures of the real servers; tests/conftest.py brings them in.

All tests of a run share one server of each kind (tests/shared_servers.py) and use names of their own. A test
that stops or kills a server makes its own with `new_kafka`, `new_zookeeper`, `new_pinot`, which end with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from stack.errors import StackError
from stack.jars import jar_sets
from stack.jars.java import spark_environment
from stack.kafka import KafkaCluster, NodePorts
from stack.pinot import PinotPorts, PinotServer
from stack.ports import LOOPBACK, free_ports
from stack.process.parallel import for_each
from stack.zookeeper import ZooKeeperServer
from tests.shared_servers import BROKER_PROPERTIES, QUICK_KAFKA, QUICK_PINOT, running


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
def stack_jars() -> Callable[[str], tuple[Path, ...]]:
    """`stack_jars("spark")`: the jars of a set, fetched if they are not there."""
    return jar_sets.jar_files


@pytest.fixture(scope="session")
def zookeeper_server(pytestconfig: pytest.Config) -> ZooKeeperServer:
    """The ZooKeeper that the run shares; `.address`."""
    server: ZooKeeperServer = running(pytestconfig, "zookeeper")[0]
    return server


@pytest.fixture(scope="session")
def kafka_pair(pytestconfig: pytest.Config) -> KafkaPair:
    """Both clusters that the run shares, started side by side."""
    return KafkaPair(*running(pytestconfig, "source", "destination"))


@pytest.fixture(scope="session")
def source_kafka(pytestconfig: pytest.Config) -> KafkaCluster:
    """The source cluster that the run shares, one broker; `.address`."""
    cluster: KafkaCluster = running(pytestconfig, "source")[0]
    return cluster


@pytest.fixture(scope="session")
def destination_kafka(pytestconfig: pytest.Config) -> KafkaCluster:
    """The destination cluster that the run shares, one broker; `.address`."""
    cluster: KafkaCluster = running(pytestconfig, "destination")[0]
    return cluster


@pytest.fixture(scope="session")
def pinot_server(pytestconfig: pytest.Config) -> PinotServer:
    """The Pinot that the run shares; `.controller_address`, `.broker_address`."""
    server: PinotServer = running(pytestconfig, "pinot")[0]
    return server


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
        server = PinotServer(name, tmp_path / f"{name}-{len(made)}", PinotPorts.free(), jvm=QUICK_PINOT)
        made.append(server)
        server.start()
        return server

    yield make
    for_each(made, PinotServer.kill)
    for_each(made, PinotServer.wipe)
