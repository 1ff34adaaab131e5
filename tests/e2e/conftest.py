"""Fixtures of a separate service for each test, on the shared servers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from stack.ports import free_ports
from stack.zookeeper import ZooKeeperServer
from tests.delaying import SlowPort
from tests.running import RunningInstance
from tests.servers import KafkaPair

NewInstance = Callable[..., RunningInstance]
NewSlowPort = Callable[[str], SlowPort]


@pytest.fixture
def zookeeper_root() -> str:
    """Return the ZooKeeper root shared by the instances of a test."""
    return new_root()


def new_root() -> str:
    """Return a unique root."""
    return f"/test-{uuid4().hex[:12]}"


@pytest.fixture
def slow_port() -> Iterator[NewSlowPort]:
    """Return a factory of proxy ports that a test may slow down; they outlive the instances that use them."""
    with ExitStack() as ways:
        yield lambda address: ways.enter_context(SlowPort(free_ports(1)[0], address))


def service_environment(kafka_pair: KafkaPair, unique: str) -> dict[str, str]:
    """Return settings of a service between the shared clusters, with topics of unique names."""
    return {
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": kafka_pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": kafka_pair.destination.address,
        "HEADRACE_MIRROR__PROGRESS_TOPIC": f"progress-{unique}",
        "HEADRACE_MIRROR__METRICS_TOPIC": f"metrics-{unique}",
        "HEADRACE_MIRROR__EVENTS_TOPIC": f"events-{unique}",
        "HEADRACE_MONITOR__INCIDENTS_TOPIC": f"incidents-{unique}",
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        "HEADRACE_MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "0.5",
    }


@contextmanager
def instances_of(
    root: str, folder: Path, kafka_pair: KafkaPair, zookeeper_server: ZooKeeperServer
) -> Iterator[NewInstance]:
    """Yield a factory of instances that share one root; settings are passed as environment variables."""
    made: list[RunningInstance] = []

    def make(name: str, python: str = sys.executable, **settings: str) -> RunningInstance:
        environment = {
            "HEADRACE_ZOOKEEPER__SERVERS": zookeeper_server.address,
            "HEADRACE_ZOOKEEPER__ROOT": root,
            "HEADRACE_ZOOKEEPER__SESSION_TIMEOUT_SECONDS": "4",
            **service_environment(kafka_pair, root[1:]),
            "HEADRACE_MIRROR__DEFINITIONS__ADDRESSES": '["127.0.0.1:*", "localhost:*"]',
            "HEADRACE_MIRROR__WORKER__METRICS_INTERVAL_SECONDS": "1",
            **{f"HEADRACE_{key}".upper(): value for key, value in settings.items()},
        }
        instance = RunningInstance(name, folder, environment, python)
        made.append(instance)
        return instance.start()

    try:
        yield make
    finally:
        for instance in made:
            instance.stop()


@pytest.fixture
def new_instance(
    tmp_path: Path,
    slow_port: NewSlowPort,
    kafka_pair: KafkaPair,
    zookeeper_server: ZooKeeperServer,
    zookeeper_root: str,
) -> Iterator[NewInstance]:
    """Return a factory of instances for this test."""
    with instances_of(zookeeper_root, tmp_path, kafka_pair, zookeeper_server) as make:
        yield make
