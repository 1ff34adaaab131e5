"""Session of the only process that uses the embedded store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mirror.adapters.embedded_store.store import EmbeddedStore, read_state
from mirror.coordination.store.commands import Command, Result
from mirror.coordination.store.machine import State, apply
from mirror.coordination.store.replica import StateReplica, call_watches
from mirror.coordination.store.session import StoreSession
from mirror.errors import ConfigError, Unreachable
from mirror.loggers import get_logger
from mirror.model.nodes import SessionState

_log = get_logger(__name__)
_TIMEOUT_SECONDS: Final = 20.0
"""Session timeout, which limits how long a worker copies after its control process has frozen."""


class EmbeddedSession(StoreSession):
    """Session with the embedded store. Implements `ports.NodeStore`.

    The session cannot be lost while the process runs, because the store is part of the process.
    """

    def __init__(
        self, store: EmbeddedStore, on_state: Callable[[SessionState], None] = lambda _: None
    ) -> None:
        super().__init__(store, secrets.token_hex(8))
        self._store = store
        self._on_state = on_state

    def start(self) -> None:
        """Open the store and start the session. Raises the errors of `EmbeddedStore.open`."""
        self._store.open()
        with ExitStack() as undo:
            undo.callback(self._store.close)
            self.open()
            undo.pop_all()
        self._on_state(SessionState.CONNECTED)

    def stop(self) -> None:
        """End the session and close the store. Idempotent."""
        if self._store.is_open:
            try:
                self.close()
            except Unreachable as error:  # the next process ends the session
                _log.warning("session not ended in the coordination store", reason=str(error))
        self._store.close()

    def beat(self) -> None:
        """Do nothing: the store is in this process."""

    def last_contact(self) -> float:
        """Return the current time (monotonic seconds), because the store is in this process."""
        return time.monotonic()

    def session_timeout_seconds(self) -> float:
        """Return the number of seconds after which workers stop if this process freezes."""
        return _TIMEOUT_SECONDS

    def answer_seconds(self) -> float:
        """Return 0: reads take no time."""
        return 0.0

    def is_answering(self) -> bool:
        """Return True: this store always responds promptly."""
        return True


class _CopiedLog:
    """In-memory copy of the state. Changes affect only the copy. Implements `CommandLog`. Not thread-safe."""

    def __init__(self, state: State) -> None:
        self.replica = StateReplica(state)

    def submit(self, command: Command) -> Result:
        """Apply a command to the copy."""
        state, result = apply(self.replica.state, command)
        call_watches(self.replica.publish(state, [result.changes]))
        return result

    def sync(self) -> None:
        """Do nothing: no other process changes the copy."""


def session_on_copy(folder: Path) -> StoreSession:
    """Return a session on an in-memory copy of the state in a folder.

    Changes are not stored, so another process may have the folder in use. Raises DamagedStore, NewerFormat;
    ConfigError if the folder cannot be read.
    """
    try:
        state = read_state(folder)
    except FileNotFoundError:
        state = State()
    except OSError as error:
        raise ConfigError(
            f"cannot read the state of the service in {folder}: {error.strerror or error}",
            advice="run the command as the user of the service",
        ) from error
    session = StoreSession(_CopiedLog(state), secrets.token_hex(8))
    session.open()
    return session
