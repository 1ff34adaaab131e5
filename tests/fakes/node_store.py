"""An in-memory ZooKeeper with sessions. Each session satisfies `mirror.ports.NodeStore`.

It passes the same contract as the adapter on the real server (tests/contract/mirror/test_node_store.py)
and does what a real server cannot be told to: fail at a chosen operation before or after its effect,
lose a chosen session, and let others act between any two operations.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any

from mirror.errors import AlreadyExists, HeadraceError, NotFound, SessionLost, Unreachable, VersionConflict
from mirror.model.nodes import NewNode, NextNode, Node, NodeChange, NodeDeletion, NodeWrite
from mirror.ports import Watch

WRITES = frozenset({"create", "write", "change_together", "delete"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One request to the server. `number`: how many requests of this session came before; `paths`: all that
    it is about, where it changes several together."""

    number: int
    name: str
    path: str
    paths: tuple[str, ...] = ()

    @property
    def is_write(self) -> bool:
        """Whether it changes something."""
        return self.name in WRITES


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with an operation. `after_effect`: the server has done it, the answer is lost."""

    after_effect: bool
    error: type[HeadraceError] = Unreachable


Script = Callable[[Operation], Fault | None]
"""Asked before every operation of a session; may itself do anything with other sessions."""


@dataclass
class _Znode:
    data: bytes
    owner: FakeSession | None
    version: int = 0
    children: dict[str, _Znode] = field(default_factory=dict)
    children_made: int = 0


class _Kind(Enum):
    DATA = "data"
    CHILDREN = "children"


class FakeZooKeeper:
    """The tree that sessions share."""

    def __init__(self) -> None:
        self._root = _Znode(b"", None)
        self._lock = threading.RLock()
        self._sessions: list[FakeSession] = []
        self.applications: dict[str, Any] = {}
        """By the host of their address, those of the instances that meet here."""
        self._watches: dict[tuple[_Kind, str], list[tuple[FakeSession, Watch]]] = {}

    def session(self) -> FakeSession:
        """A client with a session of its own."""
        session = FakeSession(self)
        self._sessions.append(session)
        return session

    def dump(self) -> dict[str, bytes]:
        """Every node's data by path."""
        return {path: node.data for path, node in self._walk("", self._root)}

    def _walk(self, path: str, node: _Znode) -> Iterator[tuple[str, _Znode]]:
        for name, below in node.children.items():
            yield f"{path}/{name}", below
            yield from self._walk(f"{path}/{name}", below)

    def _find(self, path: str) -> _Znode | None:
        node: _Znode | None = self._root
        for name in filter(None, path.split("/")):
            node = node.children.get(name) if node is not None else None
        return node

    def _parent_of(self, path: str) -> tuple[_Znode | None, str]:
        parent, _, name = path.rpartition("/")
        return (self._find(parent) if parent else self._root), name

    def _create(self, path: str, data: bytes, owner: FakeSession | None, sequential: bool) -> str:
        node, made = self._root, ""
        *parents, name = path.strip("/").split("/")
        for step in parents:
            made += f"/{step}"
            if step not in node.children:
                self._add(node, made, _Znode(b"", None))
            node = node.children[step]
        if sequential:
            name += f"{node.children_made:010}"
        elif name in node.children:
            raise AlreadyExists(f"znode {path} already exists")
        self._add(node, f"{made}/{name}", _Znode(data, owner))
        return f"{made}/{name}"

    def _add(self, parent: _Znode, path: str, node: _Znode) -> None:
        above, _, name = path.rpartition("/")
        parent.children[name] = node
        parent.children_made += 1
        self._changed(_Kind.DATA, path)
        self._changed(_Kind.CHILDREN, path)
        self._changed(_Kind.CHILDREN, above)

    def _write(self, path: str, data: bytes) -> int:
        node = self._find(path)
        assert node is not None
        node.data, node.version = data, node.version + 1
        self._changed(_Kind.DATA, path)
        return node.version

    def _delete(self, path: str, version: int | None) -> None:
        parent, name = self._parent_of(path)
        node = parent.children.get(name) if parent is not None else None
        if parent is None or node is None:
            return
        if version not in {None, node.version} or node.children:
            raise VersionConflict(f"znode {path} was modified concurrently")
        del parent.children[name]
        self._changed(_Kind.DATA, path)
        self._changed(_Kind.CHILDREN, path)
        self._changed(_Kind.CHILDREN, path.rpartition("/")[0])

    def _watch(self, kind: _Kind, path: str, session: FakeSession, watch: Watch | None) -> None:
        if watch is not None:
            waiting = self._watches.setdefault((kind, path), [])
            if (session, watch) not in waiting:
                waiting.append((session, watch))

    def _changed(self, kind: _Kind, path: str) -> None:
        for session, watch in self._watches.pop((kind, path), []):
            session.pending.append(watch)

    def _end(self, session: FakeSession) -> None:
        with self._lock:
            mine = [path for path, node in self._walk("", self._root) if node.owner is session]
            for path in mine:
                self._delete(path, None)
        self._fire()

    def _forget_watches(self, session: FakeSession) -> list[Watch]:
        with self._lock:
            lost = [watch for waiting in self._watches.values() for one, watch in waiting if one is session]
            for key, waiting in self._watches.items():
                self._watches[key] = [one for one in waiting if one[0] is not session]
        return lost

    def _fire(self) -> None:
        """Tell the sessions that can hear; watches are called without the lock, as from another thread."""
        for session in self._sessions:
            if session.is_up:
                session.deliver()


class FakeSession:
    """One client's session. Satisfies `ports.NodeStore`. `turns`: how often an answer was waited for;
    requests that are sent together are one."""

    def __init__(self, server: FakeZooKeeper) -> None:
        self._server = server
        self._numbers = count()
        self._is_over = False
        self.is_up = True
        self.pending: list[Watch] = []
        self.log: list[Operation] = []
        self.turns = 0
        self._is_in_turn = False
        self.script: Script = lambda _: None

    def disconnect(self) -> None:
        """The server does not answer; the session lives. The client calls every watch, as kazoo does."""
        self.is_up = False
        self.pending.extend(self._server._forget_watches(self))
        self.deliver()

    def reconnect(self) -> None:
        """The same session answers again."""
        self.is_up = True

    def expire(self) -> None:
        """The server ends the session; the client learns of it at its next request."""
        self.disconnect()
        self._is_over = True
        self._server._end(self)

    def renew(self) -> None:
        """The client has opened another session in place of the one that is over."""
        self._is_over = False
        self.is_up = True

    def deliver(self) -> None:
        """Call the watches that are due."""
        while self.pending:
            self.pending.pop(0)()

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """As in the port."""
        with self._asked("create", path):
            return self._server._create(path, data, self if ephemeral else None, sequential)

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """As in the port, one operation each."""
        with self._turn():
            for path, data in nodes:
                self.create(path, data)

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """As in the port, one operation each."""
        with self._turn():
            return [self.read(path) for path in paths]

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """As in the port, one operation each."""
        found = {}
        with self._turn():
            for path in paths:
                with contextlib.suppress(NotFound):
                    found[path] = self._read(path, watch_of(path) if watch_of is not None else None)
        return found

    def sync(self) -> None:
        """As in the port; everything here is always new."""
        with self._asked("sync", "/"):
            return

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """As in the port."""
        with self._asked("read", path):
            node = self._server._find(path)
            self._server._watch(_Kind.DATA, path, self, watch)
            if node is None:
                raise NotFound(f"znode {path} does not exist")
            return Node(node.data, node.version)

    def _read(self, path: str, watch: Watch | None) -> Node:
        """As `read`, but that a missing node takes no watch."""
        with self._asked("read", path):
            node = self._server._find(path)
            if node is None:
                raise NotFound(f"znode {path} does not exist")
            self._server._watch(_Kind.DATA, path, self, watch)
            return Node(node.data, node.version)

    def write(self, path: str, data: bytes, version: int) -> int:
        """As in the port."""
        with self._asked("write", path):
            node = self._server._find(path)
            if node is None:
                raise NotFound(f"znode {path} does not exist")
            if node.version != version:
                raise VersionConflict(f"znode {path} was modified concurrently")
            return self._server._write(path, data)

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """As in the port."""
        made = []
        with self._asked("change_together", *(one.path for one in changes)):
            for one in changes:
                node = self._server._find(one.path)
                if isinstance(one, NewNode) and node is not None:
                    raise AlreadyExists(f"znode {one.path} already exists")
                if node is None and not isinstance(one, NextNode | NewNode):
                    raise NotFound(f"znode {one.path} does not exist")
                is_other = isinstance(one, NodeWrite) and node is not None and node.version != one.version
                if is_other or (isinstance(one, NodeDeletion) and node is not None and node.children):
                    raise VersionConflict(f"znode {one.path} was modified concurrently")
            for one in changes:
                match one:
                    case NodeWrite(path, data, _):
                        self._server._write(path, data)
                    case NodeDeletion(path):
                        self._server._delete(path, None)
                    case NextNode(path, data):
                        made.append(self._server._create(path, data, None, True))
                    case NewNode(path, data):
                        made.append(self._server._create(path, data, None, False))
        return tuple(made)

    def delete(self, path: str, version: int | None = None) -> None:
        """As in the port."""
        with self._asked("delete", path):
            self._server._delete(path, version)

    def delete_tree(self, path: str) -> None:
        """As in the port: children first, one request for each node."""
        for name in self.children(path):
            self.delete_tree(f"{path}/{name}")
        try:
            self.delete(path)
        except VersionConflict:
            self.delete_tree(path)  # somebody added a child meanwhile

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """As in the port."""
        with self._asked("children", path):
            node = self._server._find(path)
            self._server._watch(_Kind.CHILDREN, path, self, watch)
            return tuple(sorted(node.children)) if node is not None else ()

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        self.turns += 1
        self._is_in_turn = True
        try:
            yield
        finally:
            self._is_in_turn = False

    @contextlib.contextmanager
    def _asked(self, name: str, path: str, *further: str) -> Iterator[None]:
        self.turns += not self._is_in_turn
        operation = Operation(next(self._numbers), name, path, (path, *further))
        fault = self.script(operation)
        self.log.append(operation)
        if self._is_over:
            raise SessionLost("the ZooKeeper session has expired")
        if not self.is_up:
            raise Unreachable(f"ZooKeeper does not answer: {path}")
        if fault is not None and not fault.after_effect:
            raise fault.error(f"scripted, before the effect: {operation}")
        with self._server._lock:
            yield
        self._server._fire()
        if fault is not None:
            raise fault.error(f"scripted, after the effect: {operation}")


def failing_write(number: int, *, after_effect: bool) -> Script:
    """Lets the write `number` (from 0, counted from now) of a session fail, and no other operation."""
    writes = count()

    def script(operation: Operation) -> Fault | None:
        if operation.is_write and next(writes) == number:
            return Fault(after_effect)
        return None

    return script
