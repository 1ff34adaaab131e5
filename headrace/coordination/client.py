"""Clients of the coordination store that the settings choose."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from headrace.settings import HeadraceSettings
from mirror.adapters.embedded.session import EmbeddedSession
from mirror.adapters.embedded.store import EmbeddedStore
from mirror.adapters.zookeeper import ZooKeeper
from mirror.errors import ConfigError
from mirror.instance.health import Health
from mirror.model.nodes import SessionState
from mirror.ports import NodeStore

PART: Final = "coordination store"
"""Part of an instance's health."""


class CoordinationClient(NodeStore, Protocol):
    """Session with the store: its nodes, its lifecycle, and the contact that a lease needs."""

    def start(self) -> None:
        """Connect."""
        ...

    def stop(self) -> None:
        """End the session. Idempotent."""
        ...

    def session_timeout_seconds(self) -> float:
        """See `mirror.instance.lease.Contact`."""
        ...

    def last_contact(self) -> float:
        """See `mirror.instance.lease.Contact`."""
        ...

    def beat(self) -> None:
        """See `mirror.instance.lease.Contact`."""
        ...

    def answer_seconds(self) -> float:
        """See `mirror.instance.lease.Contact`."""
        ...

    def is_answering(self) -> bool:
        """Return whether a prompt response is likely."""
        ...


def store_folder(settings: HeadraceSettings) -> Path:
    """Return the folder of the embedded store: `mirror.state_directory`, or a folder of this user. Raises
    ConfigError if there is neither."""
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
    """Return the store and its place."""
    if settings.uses_zookeeper:
        return f"ZooKeeper at {settings.zookeeper.servers}, below {settings.zookeeper.root}"
    return f"the embedded store in {store_folder(settings)}"


def store_sentence(settings: HeadraceSettings) -> str:
    """Return a sentence with the location of the service's state and its consequences."""
    name = store_name(settings)
    return name if settings.uses_zookeeper else f"{name}; this instance runs alone, without ZooKeeper"


def coordination_client(
    settings: HeadraceSettings,
    name: str,
    health: Health,
    on_state: Callable[[SessionState], None],
    while_waiting: Callable[[], None],
) -> CoordinationClient:
    """Return the client of an instance, not yet started. Raises ConfigError."""
    if settings.uses_zookeeper:
        return ZooKeeper(settings.zookeeper, on_state, while_waiting)
    sentence = store_sentence(settings)
    health.report(PART, True, sentence)
    store = EmbeddedStore(store_folder(settings), name, partial(_report, health, sentence))
    return EmbeddedSession(store, on_state)


def _report(health: Health, sentence: str, is_well: bool, trouble: str) -> None:
    health.report(PART, is_well, trouble or sentence)


@contextmanager
def connected(settings: HeadraceSettings, command: str) -> Iterator[CoordinationClient]:
    """Connect for the duration of a command. Raises StoreInUse if an instance uses the embedded store, and
    the errors of the client."""
    client: CoordinationClient
    if settings.uses_zookeeper:
        client = ZooKeeper(settings.zookeeper)
    else:
        client = EmbeddedSession(EmbeddedStore(store_folder(settings), command))
    client.start()
    try:
        yield client
    finally:
        client.stop()
