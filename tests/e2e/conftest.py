"""Fixtures of a separate service for each test, on the shared servers.

Its instances coordinate through the shared Kafka cluster, unless a test passes `on_zookeeper`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.settings import CoordinationSettings, KafkaCluster
from stack.ports import free_ports
from stack.zookeeper import ZooKeeperServer
from tests.delaying import SlowPort
from tests.running import RunningInstance
from tests.servers import KafkaPair

NewInstance = Callable[..., RunningInstance]
NewSlowPort = Callable[[str], SlowPort]


@pytest.fixture
def service_name() -> str:
    """Return the unique name of the service of a test, which is part of the names of its topics."""
    return new_service_name()


def new_service_name() -> str:
    """Return a unique name of a service."""
    return f"test-{uuid4().hex[:12]}"


def on_zookeeper(server: ZooKeeperServer, service_name: str) -> dict[str, str]:
    """Return the settings of instances that coordinate through ZooKeeper, below a root of that name."""
    return {"zookeeper__servers": server.address, "zookeeper__root": f"/{service_name}"}


def store_settings(service_name: str) -> dict[str, str]:
    """Return the settings of instances that coordinate through the destination cluster."""
    return {"coordination__cluster": "destination", "coordination__topic": f"coordination-{service_name}"}


@contextmanager
def store_session(kafka_pair: KafkaPair, service_name: str) -> Iterator[KafkaSession]:
    """Yield a session with the store of instances that coordinate through the destination cluster."""
    settings = CoordinationSettings(cluster="destination", topic=f"coordination-{service_name}")
    session = KafkaSession(KafkaCluster(bootstrap_servers=kafka_pair.destination.address), settings)
    session.start()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture
def session(kafka_pair: KafkaPair, service_name: str) -> Iterator[KafkaSession]:
    """Return a session with the store of this test's instances."""
    with store_session(kafka_pair, service_name) as session:
        yield session


@pytest.fixture
def slow_port() -> Iterator[NewSlowPort]:
    """Return a factory of proxy ports that a test may slow down; they outlive the instances that use them."""
    with ExitStack() as ways:
        yield lambda address: ways.enter_context(SlowPort(free_ports(1)[0], address))


def service_environment(kafka_pair: KafkaPair, service_name: str) -> dict[str, str]:
    """Return settings of a service between the shared clusters, with topics of unique names."""
    return {
        "HEADRACE_CLUSTERS__SOURCE__BOOTSTRAP_SERVERS": kafka_pair.source.address,
        "HEADRACE_CLUSTERS__DESTINATION__BOOTSTRAP_SERVERS": kafka_pair.destination.address,
        "HEADRACE_MIRROR__PROGRESS_TOPIC": f"progress-{service_name}",
        "HEADRACE_MIRROR__METRICS_TOPIC": f"metrics-{service_name}",
        "HEADRACE_MIRROR__EVENTS_TOPIC": f"events-{service_name}",
        "HEADRACE_MONITOR__INCIDENTS_TOPIC": f"incidents-{service_name}",
        "HEADRACE_MIRROR__WORKER__PROCESSES": "1",
        "HEADRACE_MIRROR__LEADER__DISCOVERY_INTERVAL_SECONDS": "0.5",
    }


@contextmanager
def instances_of(service_name: str, folder: Path, kafka_pair: KafkaPair) -> Iterator[NewInstance]:
    """Yield a factory of instances of one service; settings are passed as environment variables."""
    made: list[RunningInstance] = []

    def make(name: str, python: str = sys.executable, **settings: str) -> RunningInstance:
        if "zookeeper__servers" not in settings:
            settings = {**store_settings(service_name), **settings}
        environment = {
            **service_environment(kafka_pair, service_name),
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
    service_name: str,
) -> Iterator[NewInstance]:
    """Return a factory of instances for this test."""
    with instances_of(service_name, tmp_path, kafka_pair) as make:
        yield make
