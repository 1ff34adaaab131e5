"""Implements `ports.NodeStore` on top of a command log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final, NoReturn, Protocol

from mirror.coordination.store.commands import (
    Answer,
    Change,
    Command,
    CommandRefusal,
    EndSession,
    EphemeralNode,
    OpenSession,
    Operation,
    RefusalKind,
    Removal,
    Result,
    TreeRemoval,
)
from mirror.coordination.store.replica import StateReplica, WatchKind
from mirror.coordination.store.tree import TreeNode
from mirror.errors import AlreadyExists, NotFound, Refused, SessionLost, Unreachable, VersionConflict
from mirror.model.nodes import NewNode, NextNode, Node, NodeChange, NodeWrite
from mirror.ports import Watch

_MOST_OPERATIONS: Final = 500
_MOST_BYTES: Final = 512 * 1024
"""Maximum size of one command of `create_all`."""


class CommandLog(Protocol):
    """A log that orders commands and applies them to a replica."""

    @property
    def replica(self) -> StateReplica:
        """Replica that contains every command with a known result."""
        ...

    def submit(self, command: Command) -> Result:
        """Append a command, wait until it is durable, and return its result.

        Raises Unreachable if the command was not appended, or may not have been appended.
        """
        ...

    def sync(self) -> None:
        """Ensure that the replica contains all commands appended before this call."""
        ...


@dataclass(frozen=True, slots=True)
class SessionIdentity:
    """Id of a session, and a counter that numbers its requests."""

    name: str
    requests: Iterator[int] = field(default_factory=lambda: count(1))


class StoreSession:
    """Session with a coordination store. Implements `ports.NodeStore`.

    Before `open` and after `close`, every method raises SessionLost.
    """

    def __init__(self, log: CommandLog, session: str) -> None:
        self._log = log
        self._identity = SessionIdentity(session)

    @property
    def identity(self) -> SessionIdentity:
        """Identity of the current session."""
        return self._identity

    def open(self) -> None:
        """Start the session with the coordination store. Raises Unreachable."""
        self._log.submit(OpenSession(self.identity.name))

    def close(self) -> None:
        """End the session, which deletes its ephemeral nodes. Safe to call twice. Raises Unreachable."""
        self._log.replica.forget(self.identity.name)
        self._log.submit(EndSession(self.identity.name))

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its parents, and return its path. Raises AlreadyExists."""
        operation: Operation
        if ephemeral:
            operation = EphemeralNode(path, data, sequential)
        else:
            operation = NextNode(path, data) if sequential else NewNode(path, data)
        return str(self.change(operation)[0])

    def create_all(self, nodes: Sequence[tuple[str, bytes]]) -> None:
        """Create many nodes, each after its parent. Raises AlreadyExists."""
        for some in _in_portions(nodes):
            self.change(*(NewNode(path, data) for path, data in some))

    def read(self, path: str, watch: Watch | None = None) -> Node:
        """Return data and version of a node. Raises NotFound."""
        node = self.read_node(path, watch)
        if node is None:
            raise NotFound(f"node {path} does not exist")
        return Node(node.data, node.version)

    def read_all(self, paths: Sequence[str]) -> Sequence[Node]:
        """Return many nodes in the order of their paths. Raises NotFound."""
        return [self.read(path) for path in paths]

    def read_present(
        self, paths: Sequence[str], watch_of: Callable[[str], Watch] | None = None
    ) -> Mapping[str, Node]:
        """Return the existing nodes by path. Missing nodes are omitted."""
        found = {}
        for path in paths:
            watch = watch_of(path) if watch_of is not None else None
            node = self.read_node(path, watch, waits=False)
            if node is not None:
                found[path] = Node(node.data, node.version)
        return found

    def sync(self) -> None:
        """Ensure that later reads include all writes before this call."""
        self._log.sync()

    def write(self, path: str, data: bytes, version: int) -> int:
        """Replace the data of a node if it has this version. Return the new version.

        Raises VersionConflict, NotFound.
        """
        (written,) = self.change(NodeWrite(path, data, version))
        assert isinstance(written, int)
        return written

    def change_together(self, changes: Sequence[NodeChange]) -> tuple[str, ...]:
        """Apply changes atomically. Return the paths of created nodes.

        Raises VersionConflict, NotFound, AlreadyExists.
        """
        return tuple(answer for answer in self.change(*changes) if isinstance(answer, str))

    def delete(self, path: str, version: int | None = None) -> None:
        """Delete a node without children. Does nothing if the node is missing. Raises VersionConflict."""
        self.change(Removal(path, version))

    def delete_tree(self, path: str) -> None:
        """Delete a node and its descendants. Does nothing if the node is missing."""
        self.change(TreeRemoval(path))

    def children(self, path: str, watch: Watch | None = None) -> tuple[str, ...]:
        """Return the names of the child nodes, sorted; empty if the node does not exist."""
        node = self.read_node(path, watch, WatchKind.CHILDREN)
        return tuple(sorted(node.children)) if node is not None else ()

    def read_node(
        self, path: str, watch: Watch | None, kind: WatchKind = WatchKind.DATA, *, waits: bool = True
    ) -> TreeNode | None:
        """Return a node and set a watch, as `StateReplica.read_node` does. Raises SessionLost."""
        return self._log.replica.read_node(self.identity.name, path, watch, kind, waits=waits)

    def change(self, *operations: Operation) -> tuple[Answer, ...]:
        """Apply operations atomically. Raises the errors of `ports.NodeStore`."""
        identity = self.identity
        result = self._log.submit(Change(identity.name, next(identity.requests), operations))
        if result.refusal is not None:
            raise_refusal(result.refusal)
        return result.answers


def raise_refusal(refusal: CommandRefusal) -> NoReturn:
    """Raise the error for a rejected command."""
    path = refusal.path
    match refusal.kind:
        case RefusalKind.NOT_FOUND:
            raise NotFound(f"node {path} does not exist")
        case RefusalKind.EXISTS:
            raise AlreadyExists(f"node {path} already exists")
        case RefusalKind.CONFLICT:
            raise VersionConflict(f"node {path} was modified concurrently")
        case RefusalKind.INVALID:
            raise Refused(f"the coordination store rejected the request for node {path!r}")
        case RefusalKind.NO_SESSION:
            raise SessionLost("the session with the coordination store has ended")
        case RefusalKind.ALIVE | RefusalKind.FORGOTTEN:
            raise Unreachable("it is unknown whether the coordination store applied the request")


def _in_portions(nodes: Sequence[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    portion: list[tuple[str, bytes]] = []
    size = 0
    for path, data in nodes:
        if portion and (len(portion) >= _MOST_OPERATIONS or size + len(data) > _MOST_BYTES):
            yield portion
            portion, size = [], 0
        portion.append((path, data))
        size += len(data)
    if portion:
        yield portion
