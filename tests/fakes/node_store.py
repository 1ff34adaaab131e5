"""In-memory ZooKeeper with sessions. Each session satisfies `mirror.ports.NodeStore`.

It passes the same contract as the adapter on the real server (tests/contract/mirror/test_node_store.py), and
can do what a real server cannot: fail at a chosen operation before or after its effect, expire a chosen
session, and run other sessions between any two operations.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from mirror.coordination.store.commands import Command, Result
from mirror.coordination.store.machine import apply
from mirror.coordination.store.replica import StateReplica
from mirror.coordination.store.session import StoreSession
from mirror.coordination.store.tree import walk
from mirror.errors import HeadraceError, SessionLost, Unreachable, VersionConflict
from mirror.model.nodes import Node, NodeChange
from mirror.ports import Watch

WRITES = frozenset({"create", "write", "change_together", "delete"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One request to the server. `number`: count of earlier requests in this session.

    `paths`: all paths of a multi-operation.
    """

    number: int
    name: str
    path: str
    paths: tuple[str, ...] = ()

    @property
    def is_write(self) -> bool:
        """Return whether it is a write."""
        return self.name in WRITES


@dataclass(frozen=True, slots=True)
class Fault:
    """Failure of an operation. `after_effect`: the server has applied it, but the response is lost."""

    after_effect: bool
    error: type[HeadraceError] = Unreachable


Script = Callable[[Operation], Fault | None]
"""Called before every operation of a session; may use other sessions."""


class FakeZooKeeper:
    """Node tree shared by the sessions: the state machine of `mirror/coordination/store`."""

    def __init__(self) -> None:
        self.replica = StateReplica()
        self._lock = threading.RLock()
        self._sessions: list[FakeSession] = []
        self._numbers = count(1)
        self.applications: dict[str, Any] = {}
        """Applications of the instances that share this service, by the host of their address."""

    def session(self) -> FakeSession:
        """Return a client with a new session."""
        session = FakeSession(self)
        self._sessions.append(session)
        return session

    def dump(self) -> dict[str, bytes]:
        """Return the data of every node, by path."""
        return {path: node.data for path, node in walk(self.replica.state.root)}

    def sync(self) -> None:
        """Record the operation. Reads are never stale here."""

    def new_name(self) -> str:
        """Return the id of a session."""
        return f"session-{next(self._numbers)}"

    def submit(self, command: Command) -> Result:
        """Apply a command; the watches that it fires are delivered later."""
        with self._lock:
            state, result = apply(self.replica.state, command)
            for name, watch in self.replica.publish(state, [result.changes]):
                for session in self._sessions:
                    if session.name == name:
                        session.pending.append(watch)
        return result

    def fire(self) -> None:
        """Notify the connected sessions; watches run without the lock, as from another thread."""
        for session in self._sessions:
            if session.is_up:
                session.deliver()


class FakeSession:
    """Session of one client. Satisfies `ports.NodeStore`.

    `round_trips`: number of round trips; requests sent together count once.
    """

    def __init__(self, server: FakeZooKeeper) -> None:
        self._server = server
        self._numbers = count()
        self._is_over = False
        self.is_up = True
        self.pending: list[Watch] = []
        self.log: list[Operation] = []
        self.round_trips = 0
        self._is_in_round_trip = False
        self.script: Script = lambda _: None
        self._begin()

    def _begin(self) -> None:
        self.name = self._server.new_name()
        self._store = StoreSession(self._server, self.name)
        self._store.open()

    def disconnect(self) -> None:
        """Disconnect without ending the session. The client calls every watch, as kazoo does."""
        self.is_up = False
        self.pending.extend(watch for _, watch in self._server.replica.forget(self.name))
        self.deliver()

    def reconnect(self) -> None:
        """Reconnect the same session."""
        self.is_up = True

    def expire(self) -> None:
        """Expire the session on the server; the client notices at its next request."""
        self.disconnect()
        self._is_over = True
        self._store.close()
        self._server.fire()

    def renew(self) -> None:
        """Open a new session in place of the expired one."""
        self._is_over = False
        self.is_up = True
        self._begin()

    def deliver(self) -> None:
        """Call the pending watches."""
        while self.pending:
            self.pending.pop(0)()

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its parents, and return its path. Raises AlreadyExists."""
        with self._asked("create", path):
            return self._store.create(path, data, ephemeral=ephemeral, sequential=sequential)

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Create many nodes, with one operation for each."""
        with self._round_trip():
            for path, data in nodes:
                self.create(path, data)

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Return many nodes, with one operation for each. Raises NotFound."""
        with self._round_trip():
            return [self.read(path) for path in paths]

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """Return the existing nodes by path, with one operation for each."""
        found: dict[str, Node] = {}
        with self._round_trip():
            for path in paths:
                with self._asked("read", path):
                    found.update(self._store.read_present([path], watch_of))
        return found

    def sync(self) -> None:
        """Record the operation. Reads are never stale here."""
        with self._asked("sync", "/"):
            return

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Return data and version of a node. Raises NotFound."""
        with self._asked("read", path):
            return self._store.read(path, watch)

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace the data of a node if it has this version. Return the new version."""
        with self._asked("write", path):
            return self._store.write(path, data, version)

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """Apply changes atomically. Return the paths of created nodes."""
        with self._asked("change_together", *(one.path for one in changes)):
            return self._store.change_together(changes)

    def delete(self, path: str, version: int | None = None) -> None:
        """Delete a node without children. A missing node is not an error."""
        with self._asked("delete", path):
            self._store.delete(path, version)

    def delete_tree(self, path: str) -> None:
        """Delete a node and its descendants, children first, with one request for each node."""
        for name in self.children(path):
            self.delete_tree(f"{path}/{name}")
        try:
            self.delete(path)
        except VersionConflict:
            self.delete_tree(path)  # another client added a child concurrently

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the names of the child nodes, sorted."""
        with self._asked("children", path):
            return self._store.children(path, watch)

    @contextlib.contextmanager
    def _round_trip(self) -> Iterator[None]:
        self.round_trips += 1
        self._is_in_round_trip = True
        try:
            yield
        finally:
            self._is_in_round_trip = False

    @contextlib.contextmanager
    def _asked(self, name: str, path: str, *further: str) -> Iterator[None]:
        self.round_trips += not self._is_in_round_trip
        operation = Operation(next(self._numbers), name, path, (path, *further))
        fault = self.script(operation)
        self.log.append(operation)
        if self._is_over:
            raise SessionLost("the ZooKeeper session has expired")
        if not self.is_up:
            raise Unreachable(f"ZooKeeper did not respond: {path}")
        if fault is not None and not fault.after_effect:
            raise fault.error(f"scripted, before the effect: {operation}")
        yield
        self._server.fire()
        if fault is not None:
            raise fault.error(f"scripted, after the effect: {operation}")


def failing_write(number: int, *, after_effect: bool) -> Script:
    """Return a script that fails only write `number` of a session (counted from 0, from now)."""
    writes = count()

    def script(operation: Operation) -> Fault | None:
        if operation.is_write and next(writes) == number:
            return Fault(after_effect)
        return None

    return script
