"""Session of this process with the store on Kafka, usable from all threads of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Final

from mirror.adapters.kafka.access import usable_access
from mirror.adapters.kafka.loop_thread import LoopThread
from mirror.adapters.kafka_store.store import KafkaStore, StoreEvents, StoreOptions
from mirror.adapters.settings import CoordinationSettings, KafkaCluster
from mirror.client.access import ClusterAccess
from mirror.client.cluster import Cluster
from mirror.client.event_loop import Loop
from mirror.client.handshake import ConnectionConfig, ConnectionConfigs
from mirror.coordination.store.commands import Command, Result
from mirror.coordination.store.replica import StateReplica
from mirror.coordination.store.session import SessionIdentity, StoreSession
from mirror.errors import HeadraceError, SessionLost, Unreachable
from mirror.lane.byte_budget import ByteBudget
from mirror.lane.memory import BufferPool
from mirror.loggers import get_logger
from mirror.model.nodes import SessionState

_log = get_logger(__name__)
_CLIENT_ID: Final = "headrace-coordination"
_REQUEST_SHARE: Final = 2 / 3
"""Timeout of one request as a share of the session timeout. The rest is enough to find another leader."""
_BUFFER_BYTES: Final = 8 * 1024 * 1024
_MOMENT_SECONDS: Final = 2.0
_FAREWELL_SECONDS: Final = 5.0
_JUDGED_TIMEOUTS: Final = 3.0


def coordination_cluster(
    loop: Loop, name: str, access: ClusterAccess, session_timeout_seconds: float
) -> Cluster:
    """Return a client of the store's cluster, with request timeouts shorter than the session timeout."""
    pool = BufferPool(0, ByteBudget(_BUFFER_BYTES))  # keeps no buffers
    seconds = session_timeout_seconds * _REQUEST_SHARE
    config = ConnectionConfig(loop, pool, access, _CLIENT_ID, seconds)
    return Cluster(ConnectionConfigs.of_one(config), name)


class ThreadedLog:
    """Gives other threads access to the store, which runs on its own event loop. Implements `CommandLog`."""

    def __init__(self, thread: LoopThread, seconds: float, while_waiting: Callable[[], None]) -> None:
        self._thread = thread
        self._seconds = seconds
        self._while_waiting = while_waiting
        self.store: KafkaStore | None = None

    @property
    def replica(self) -> StateReplica:
        """In-memory replica of the store's state. Raises SessionLost before `start` and after `stop`."""
        return self.opened().replica

    def opened(self) -> KafkaStore:
        """Return the open store. Raises SessionLost before `start` and after `stop`."""
        if self.store is None:
            raise SessionLost("the coordination store is closed")
        return self.store

    def submit(self, command: Command) -> Result:
        """Append a command, wait until it is durable, and return its result."""
        store = self.opened()

        async def ask(_: Loop) -> Result:
            return await store.submit(command)

        return self._thread.ask(
            "cannot change the coordination store", self._seconds, ask, self._while_waiting
        )

    def sync(self) -> None:
        """Ensure that the replica contains all commands appended before this call."""
        store = self.opened()
        doing = "cannot read the coordination store"
        self._thread.ask(doing, self._seconds, lambda _: store.sync(), self._while_waiting)


class KafkaSession(StoreSession):
    """Session with the store on Kafka. Implements `ports.NodeStore`.

    `events`: see `StoreEvents`. `while_waiting`: called periodically in every thread that waits for a result.
    """

    def __init__(
        self,
        cluster: KafkaCluster,
        settings: CoordinationSettings,
        events: StoreEvents | None = None,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._events = events or StoreEvents()
        self._thread = LoopThread("coordination")
        self._threaded = ThreadedLog(self._thread, settings.session_timeout_seconds, while_waiting)
        super().__init__(self._threaded, "")
        self._changed = threading.Event()
        self._failure: HeadraceError | None = None

    @property
    def identity(self) -> SessionIdentity:
        """Identity of the current session. Raises Unreachable while suspended, SessionLost if lost."""
        store = self._threaded.opened()
        identity, state = store.identity, store.state
        if state is SessionState.LOST:
            raise SessionLost("the session with the coordination store has ended")
        if state is SessionState.SUSPENDED:
            raise Unreachable("the coordination store does not respond")
        return identity

    def start(self) -> None:
        """Read the log and open a session.

        Raises NotAuthorized, NewerFormat, DamagedStore; ConfigError for unsuitable topics; Unreachable after
        `connect_timeout_seconds`.
        """
        access = usable_access(self._cluster)
        self._thread.post(partial(self._begin, access))
        is_answered = self._changed.wait(self._settings.connect_timeout_seconds)
        failure = self._failure
        store = self._threaded.store
        if is_answered and failure is None:
            return
        trouble = failure or (store.trouble if store is not None else None)
        self.stop()
        if failure is not None:
            raise copy(failure)
        raise Unreachable(
            f"cannot use the coordination store at {self._cluster.bootstrap_servers} within"
            f" {self._settings.connect_timeout_seconds:.0f} s{f': {trouble.message}' if trouble else ''}",
            advice=(trouble.advice if trouble else "") or "check coordination.cluster and its brokers",
        )

    def stop(self) -> None:
        """End the session and close all connections. Idempotent."""
        store = self._threaded.store
        if store is None:
            return
        if store.contact is not None:
            try:
                seconds = min(_FAREWELL_SECONDS, self._settings.session_timeout_seconds)
                self._thread.ask("cannot end the session", seconds, lambda _: store.end_session())
            except HeadraceError as error:  # it ends by its timeout
                _log.warning("session not ended in the coordination store", reason=str(error))
        self._thread.post(lambda _: store.close())
        self._threaded.store = None

    def open(self) -> None:
        """Do nothing: the store opens sessions automatically."""

    def close(self) -> None:
        """End the session, and close the store."""
        self.stop()

    def wait_for_silent_sessions(self) -> None:
        """Wait until every other session has sent a heartbeat or has been ended. Raises TimedOut."""
        store = self._threaded.opened()
        seconds = store.longest_timeout * _JUDGED_TIMEOUTS
        self._thread.ask("cannot check other sessions", seconds, lambda _: store.others_judged())

    def beat(self) -> None:
        """Do nothing: the store sends heartbeats automatically."""

    def last_contact(self) -> float:
        """Return the send time of the latest heartbeat that was read back (monotonic seconds)."""
        store = self._threaded.store
        return store.answered_at if store is not None else 0.0

    def session_timeout_seconds(self) -> float:
        """Return the time without heartbeats after which another instance may end the session."""
        return self._settings.session_timeout_seconds

    def answer_seconds(self) -> float:
        """Return the round-trip time of the last heartbeat in seconds.

        If the next heartbeat has waited longer, its waiting time is returned.
        """
        store = self._threaded.store
        contact = store.contact if store is not None else None
        if contact is None:
            return 0.0
        return max(contact.answer_seconds, contact.waited_seconds(time.monotonic()))

    def is_answering(self) -> bool:
        """Return whether the store is expected to respond promptly."""
        store = self._threaded.store
        is_connected = store is not None and store.state is SessionState.CONNECTED
        return is_connected and self.answer_seconds() < _MOMENT_SECONDS

    def _begin(self, access: ClusterAccess, loop: Loop) -> None:
        settings = self._settings
        timeout = settings.session_timeout_seconds
        cluster = coordination_cluster(loop, self._cluster.bootstrap_servers, access, timeout)
        options = StoreOptions(settings.topic, timeout, settings.replication_factor)
        self._threaded.store = KafkaStore(
            cluster, options, StoreEvents(self._state_changed, self._trouble_changed)
        )
        self._threaded.store.start()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._changed.set()
        self._events.on_state(state)

    def _trouble_changed(self, error: HeadraceError | None) -> None:
        if error is not None and not error.retriable and not self._changed.is_set():
            self._failure = error
            self._changed.set()
        self._events.on_trouble(error)
