"""The state machine: `apply(state, command)` returns the next state and the result.

The result depends only on the state and the command. There is no clock, no randomness, no I/O and no
hash-dependent order. States are immutable, so a snapshot can be written while further commands are applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.coordination.store.commands import (
    LARGEST_NODE,
    LARGEST_PATH,
    Answer,
    Change,
    Changes,
    Command,
    CommandRefusal,
    EndSession,
    EphemeralNode,
    Heartbeat,
    OpenSession,
    Operation,
    RefusalKind,
    Removal,
    Result,
    SnapshotNote,
    TreeRemoval,
)
from mirror.coordination.store.tree import Draft, TreeNode, is_valid, names_of, parent_of, walk
from mirror.model.nodes import NewNode, NextNode, NodeDeletion, NodeWrite

REMEMBERED: Final = 256
"""Number of stored results per session. The number exceeds the number of requests that a client has in
flight."""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """An open session of the coordination store.

    `ephemerals`: paths of its ephemeral nodes. `results`: stored results by request number. `forgotten`:
    highest request number whose result is no longer stored. `timeout_ms`: see `OpenSession`.
    """

    heartbeat: int = 0
    ephemerals: frozenset[str] = frozenset()
    forgotten: int = 0
    results: Mapping[int, Result] = field(default_factory=dict)
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """State of the coordination store. `applied`: number of applied commands."""

    root: TreeNode = field(default_factory=TreeNode)
    sessions: Mapping[str, SessionRecord] = field(default_factory=dict)
    applied: int = 0


def apply(state: State, command: Command) -> tuple[State, Result]:
    """Return the state after a command, and the result of the command.

    A rejected command changes only the stored results of its session.
    """
    following = State(state.root, state.sessions, state.applied + 1)
    match command:
        case OpenSession(session, timeout_ms):
            sessions = {session: SessionRecord(timeout_ms=timeout_ms), **state.sessions}
            return replace(following, sessions=sessions), Result()
        case Heartbeat(session, number):
            return _heartbeat(following, session, number)
        case EndSession(session, heartbeat):
            return _end(following, session, heartbeat)
        case Change():
            return _change(following, command)
        case SnapshotNote():
            return following, Result()


def _refused(kind: RefusalKind, path: str = "") -> Result:
    return Result(refusal=CommandRefusal(kind, path))


def _heartbeat(state: State, session: str, number: int) -> tuple[State, Result]:
    record = state.sessions.get(session)
    if record is None:
        return state, _refused(RefusalKind.NO_SESSION)
    record = replace(record, heartbeat=max(record.heartbeat, number))
    return State(state.root, {**state.sessions, session: record}, state.applied), Result()


def _end(state: State, session: str, heartbeat: int | None) -> tuple[State, Result]:
    record = state.sessions.get(session)
    if record is None:
        return state, _refused(RefusalKind.NO_SESSION)
    if heartbeat not in {None, record.heartbeat}:
        return state, _refused(RefusalKind.ALIVE)
    transaction = _Transaction(state, session)
    for path in sorted(record.ephemerals):
        transaction.remove(path)
    sessions = {name: record for name, record in transaction.sessions.items() if name != session}
    result = Result(changes=transaction.changes())
    return State(transaction.draft.root, sessions, state.applied), result


def _change(state: State, command: Change) -> tuple[State, Result]:
    record = state.sessions.get(command.session)
    if record is None:
        return state, _refused(RefusalKind.NO_SESSION)
    if command.request in record.results:
        return state, record.results[command.request]
    if command.request <= record.forgotten:
        return state, _refused(RefusalKind.FORGOTTEN)
    transaction = _Transaction(state, command.session)
    root, sessions = state.root, state.sessions
    try:
        answers = tuple(transaction.perform(operation) for operation in command.operations)
    except _Impossible as error:
        result = Result(refusal=error.refusal)
    else:
        result = Result(answers, changes=transaction.changes())
        root, sessions = transaction.draft.root, transaction.sessions
    repeated = Result(result.answers, result.refusal)
    record = _remembering(sessions[command.session], command.request, repeated)
    return State(root, {**sessions, command.session: record}, state.applied), result


def _remembering(record: SessionRecord, request: int, result: Result) -> SessionRecord:
    results, forgotten = {**record.results, request: result}, record.forgotten
    if len(results) > REMEMBERED:
        forgotten = min(results)
        del results[forgotten]
    return SessionRecord(record.heartbeat, record.ephemerals, forgotten, results, record.timeout_ms)


class _Impossible(Exception):
    """Raised to reject an operation, and therefore its whole command."""

    def __init__(self, kind: RefusalKind, path: str) -> None:
        super().__init__(kind, path)
        self.refusal = CommandRefusal(kind, path)


class _Transaction:
    """Applies operations to a modifiable copy of a state."""

    def __init__(self, state: State, session: str) -> None:
        self.draft = Draft(state.root)
        self.sessions = dict(state.sessions)
        self._session = session
        self._data: set[str] = set()
        self._children: set[str] = set()

    def changes(self) -> Changes:
        return Changes(frozenset(self._data), frozenset(self._children))

    def perform(self, operation: Operation) -> Answer:
        """Perform one operation of a transaction. Raises _Impossible."""
        if len(operation.path) > LARGEST_PATH or not is_valid(operation.path):
            raise _Impossible(RefusalKind.INVALID, operation.path)
        match operation:
            case NodeWrite(path, data, version):
                return self._write(path, data, version)
            case NewNode(path, data):
                return self._create(path, data)
            case NextNode(path, data):
                return self._create(path, data, is_sequential=True)
            case EphemeralNode(path, data, is_sequential):
                return self._create(path, data, self._session, is_sequential=is_sequential)
            case NodeDeletion(path):
                if not self.remove(path):
                    raise _Impossible(RefusalKind.NOT_FOUND, path)
            case Removal(path, version):
                self.remove(path, version)
            case TreeRemoval(path):
                self._remove_tree(path)
        return None

    def _existing(self, path: str) -> TreeNode:
        node = self.draft.edit(names_of(path))
        if node is None:
            raise _Impossible(RefusalKind.NOT_FOUND, path)
        return node

    def _write(self, path: str, data: bytes, version: int) -> int:
        node = self._existing(path)
        if node.version != version:
            raise _Impossible(RefusalKind.CONFLICT, path)
        node.data, node.version = _checked(path, data), version + 1
        self._data.add(path)
        return node.version

    def _create(self, path: str, data: bytes, owner: str = "", *, is_sequential: bool = False) -> str:
        *above, name = names_of(path)
        parent, made = self.draft.root, ""
        for step in above:
            made += f"/{step}"
            below = self.draft.child(parent, step)
            if below is None:
                below = TreeNode()
                self._add(parent, made, below)
            parent = below
        if is_sequential:
            while f"{name}{parent.next_number:010}" in parent.children:
                parent.next_number += 1  # a node of that name was created without a number
            name += f"{parent.next_number:010}"
        if name in parent.children:
            raise _Impossible(RefusalKind.EXISTS, f"{made}/{name}")
        self._add(parent, f"{made}/{name}", TreeNode(_checked(path, data), owner=owner))
        return f"{made}/{name}"

    def _add(self, parent: TreeNode, path: str, node: TreeNode) -> None:
        if parent.owner:  # as in ZooKeeper: the parent could not be deleted with its session
            raise _Impossible(RefusalKind.INVALID, path)
        self.draft.add(parent, path.rpartition("/")[2], node)
        if node.owner:
            record = self.sessions[node.owner]
            self.sessions[node.owner] = replace(record, ephemerals=record.ephemerals | {path})
        self._note_member(path)

    def remove(self, path: str, version: int | None = None) -> bool:
        """Delete a node without children. Return False if the node is missing. Raises _Impossible."""
        *above, name = names_of(path)
        parent = self.draft.edit(above)
        node = parent.children.get(name) if parent is not None else None
        if parent is None or node is None:
            return False
        if node.children or version not in {None, node.version}:
            raise _Impossible(RefusalKind.CONFLICT, path)
        del parent.children[name]
        self._disown(path, node)
        self._note_member(path)
        return True

    def _remove_tree(self, path: str) -> None:
        node = self.draft.edit(names_of(path))
        if node is None:
            return
        below = [descendant for descendant, _ in walk(node, path)]
        for descendant in reversed(below):
            self.remove(descendant)
        self.remove(path)

    def _disown(self, path: str, node: TreeNode) -> None:
        if node.owner in self.sessions:
            record = self.sessions[node.owner]
            self.sessions[node.owner] = replace(record, ephemerals=record.ephemerals - {path})

    def _note_member(self, path: str) -> None:
        self._data.add(path)
        self._children.update((path, parent_of(path)))


def _checked(path: str, data: bytes) -> bytes:
    if len(data) > LARGEST_NODE:
        raise _Impossible(RefusalKind.INVALID, path)
    return data
