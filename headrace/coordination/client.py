"""Creates clients of the coordination store in the settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from headrace.settings import HeadraceSettings, StoreKind
from mirror.adapters.embedded_store.session import EmbeddedSession, session_on_copy
from mirror.adapters.embedded_store.store import EmbeddedStore
from mirror.adapters.kafka_admin import KafkaAdmin
from mirror.adapters.kafka_store.session import KafkaSession
from mirror.adapters.kafka_store.store import StoreEvents
from mirror.adapters.settings import KafkaCluster, ZooKeeperSettings
from mirror.errors import ConfigError, HeadraceError
from mirror.instance.health import Health
from mirror.model.bounds import REACH_SECONDS
from mirror.model.nodes import SessionState
from mirror.ports import NodeStore

if TYPE_CHECKING:
    from mirror.adapters.zookeeper import ZooKeeper

PART: Final = "coordination store"
"""Component of the health report for the coordination store."""


class CoordinationClient(NodeStore, Protocol):
    """Session with the coordination store that also reports when the store last responded, for leases."""

    def start(self) -> None:
        """Connect to the coordination store."""
        ...

    def stop(self) -> None:
        """End the session with the coordination store. Idempotent."""
        ...

    def session_timeout_seconds(self) -> float:
        """Return the session timeout of the server."""
        ...

    def last_contact(self) -> float:
        """Return the send time of the last request with a response (monotonic seconds)."""
        ...

    def beat(self) -> None:
        """Send a heartbeat without waiting for the response."""
        ...

    def answer_seconds(self) -> float:
        """Return the current response time of the store in seconds."""
        ...

    def is_answering(self) -> bool:
        """Return whether the coordination store is likely to respond soon."""
        ...


def store_folder(settings: HeadraceSettings) -> Path:
    """Return the folder of the embedded store. Raises ConfigError if the user has no home directory.

    The folder is `mirror.state_directory`, by default a folder in the state directory of the user.
    """
    if settings.mirror.state_directory:
        return Path(settings.mirror.state_directory).absolute()
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        try:
            base = str(Path.home() / ".local" / "state")
        except RuntimeError as error:
            raise ConfigError(
                "no home directory for the state of the service", advice="set mirror.state_directory"
            ) from error
    return Path(base) / "headrace"


def store_name(settings: HeadraceSettings) -> str:
    """Return the kind and location of the coordination store as text."""
    match settings.store:
        case StoreKind.ZOOKEEPER:
            return f"ZooKeeper at {settings.zookeeper.servers}, below {settings.zookeeper.root}"
        case StoreKind.KAFKA:
            return f"topic {settings.coordination.topic} of cluster {settings.coordination.cluster}"
        case StoreKind.EMBEDDED:
            return f"the embedded store in {store_folder(settings)}"


def service_name(settings: HeadraceSettings) -> str:
    """Return the name that all instances of the service share."""
    if settings.store is StoreKind.KAFKA:
        return settings.coordination.topic
    return settings.zookeeper.root.strip("/")


def store_sentence(settings: HeadraceSettings) -> str:
    """Describe where the service stores its state and, for the embedded store, that it cannot have other
    instances."""
    name = store_name(settings)
    is_alone = settings.store is StoreKind.EMBEDDED
    return f"{name}; this instance runs alone, without ZooKeeper" if is_alone else name


def store_cluster(settings: HeadraceSettings) -> KafkaCluster:
    """Return the settings of the Kafka cluster that contains the coordination store.

    A cluster that is given by address is used without TLS and authentication.
    """
    name = settings.coordination.cluster
    return settings.clusters.get(name) or KafkaCluster(bootstrap_servers=name)


def zookeeper_client(
    settings: ZooKeeperSettings,
    on_state: Callable[[SessionState], None] | None = None,
    while_waiting: Callable[[], None] = lambda: None,
) -> ZooKeeper:
    """Return a ZooKeeper client that is not started yet. Raises ConfigError without the extra `zookeeper`."""
    try:
        from mirror.adapters.zookeeper import ZooKeeper
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"ZooKeeper at {settings.servers} requires {error.name}, which is not installed",
            advice="pip install 'headrace[zookeeper]', or remove the section [zookeeper]",
        ) from error
    return ZooKeeper(settings, on_state, while_waiting)


def coordination_client(
    settings: HeadraceSettings,
    name: str,
    health: Health,
    on_state: Callable[[SessionState], None],
    while_waiting: Callable[[], None],
) -> CoordinationClient:
    """Return an instance's client of the coordination store, not started yet. Raises ConfigError."""
    if settings.store is StoreKind.ZOOKEEPER:
        return zookeeper_client(settings.zookeeper, on_state, while_waiting)
    sentence = store_sentence(settings)
    health.report(PART, True, sentence)
    if settings.store is StoreKind.KAFKA:
        events = StoreEvents(on_state, partial(_report_trouble, health, sentence))
        return KafkaSession(store_cluster(settings), settings.coordination, events, while_waiting)
    store = EmbeddedStore(store_folder(settings), name, partial(_report, health, sentence))
    return EmbeddedSession(store, on_state)


def _report(health: Health, sentence: str, is_well: bool, trouble: str) -> None:
    health.report(PART, is_well, trouble or sentence)


def _report_trouble(health: Health, sentence: str, trouble: HeadraceError | None) -> None:
    health.report(PART, trouble is None, str(trouble) if trouble is not None else sentence)


@contextmanager
def connected(settings: HeadraceSettings, command: str) -> Iterator[CoordinationClient]:
    """Connect to the coordination store for the duration of a command. Raises StoreInUse if an instance uses
    the embedded store, and the errors of the client."""
    with _started(settings, command) as client:
        if isinstance(client, KafkaSession):
            client.wait_for_silent_sessions()  # no other process ends those of killed instances
        yield client


@contextmanager
def viewed(settings: HeadraceSettings, command: str) -> Iterator[NodeStore]:
    """Connect to the coordination store for the duration of a command that only reads. Raises the errors of
    the client.

    The command reads a copy of an embedded store, because an instance may be using the store.
    """
    if settings.store is StoreKind.EMBEDDED:
        yield session_on_copy(store_folder(settings))
    else:
        with _started(settings, command) as client:
            yield client


@contextmanager
def _started(settings: HeadraceSettings, command: str) -> Iterator[CoordinationClient]:
    client: CoordinationClient
    match settings.store:
        case StoreKind.ZOOKEEPER:
            seconds = min(settings.zookeeper.connect_timeout_seconds, REACH_SECONDS)
            prompt = {"connect_timeout_seconds": seconds}
            client = zookeeper_client(settings.zookeeper.model_copy(update=prompt))
        case StoreKind.KAFKA:
            with closing(KafkaAdmin(cluster := store_cluster(settings))) as admin:
                admin.cluster_id()  # unlike a session, fails at once if no broker responds
            client = KafkaSession(cluster, settings.coordination)
        case StoreKind.EMBEDDED:
            client = EmbeddedSession(EmbeddedStore(store_folder(settings), command))
    client.start()
    try:
        yield client
    finally:
        client.stop()
