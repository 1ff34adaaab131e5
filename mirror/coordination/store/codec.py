"""Encodes commands and states as bytes.

A record is a line of JSON, followed by the data of its nodes. The JSON contains the lengths of the data. A
state is a list of records: a head record, records of about `_CHUNK` bytes with nodes, and an end record.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from mirror.coordination.store.commands import (
    Change,
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
from mirror.coordination.store.machine import SessionRecord, State
from mirror.coordination.store.tree import TreeNode, find, parent_of, walk
from mirror.errors import CorruptData
from mirror.model.nodes import NewNode, NextNode, NodeDeletion, NodeWrite

_CHUNK: Final = 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
_Take = Callable[[int], bytes]


def encode_command(command: Command) -> bytes:
    """Encode a command as a record."""
    match command:
        case OpenSession(session, timeout_ms):
            return _record(["open", session, timeout_ms] if timeout_ms else ["open", session])
        case Heartbeat(session, number):
            return _record(["heartbeat", session, number])
        case EndSession(session, heartbeat):
            return _record(["end", session, heartbeat])
        case Change(session, request, operations):
            encoded = [_encode_operation(operation) for operation in operations]
            blobs = [data for _, data in encoded]
            return _record(["change", session, request, [head for head, _ in encoded]], blobs)
        case SnapshotNote(next_offset, size):
            return _record(["snapshot", next_offset, size])


def decode_command(record: bytes) -> Command:
    """Parse a record into a command. Raises CorruptData."""
    head, take = _opened(record)
    try:
        match head:
            case ["open", str(session)]:
                return OpenSession(session)
            case ["open", str(session), int(timeout_ms)]:
                return OpenSession(session, timeout_ms)
            case ["heartbeat", str(session), int(number)]:
                return Heartbeat(session, number)
            case ["end", str(session), None | int() as heartbeat]:
                return EndSession(session, heartbeat)
            case ["change", str(session), int(request), list(operations)]:
                return Change(
                    session, request, tuple(_decode_operation(operation, take) for operation in operations)
                )
            case ["snapshot", int(next_offset), int(size)]:
                return SnapshotNote(next_offset, size)
    except (TypeError, ValueError) as error:
        raise CorruptData("a command of the coordination store is malformed") from error
    raise CorruptData("a command of the coordination store has an unknown kind")


def _encode_operation(operation: Operation) -> tuple[list[Any], bytes]:
    match operation:
        case NodeWrite(path, data, version):
            return ["write", path, len(data), version], data
        case NewNode(path, data):
            return ["new", path, len(data)], data
        case NextNode(path, data):
            return ["next", path, len(data)], data
        case EphemeralNode(path, data, is_sequential):
            return ["ephemeral", path, len(data), is_sequential], data
        case NodeDeletion(path):
            return ["delete", path], b""
        case Removal(path, version):
            return ["remove", path, version], b""
        case TreeRemoval(path):
            return ["remove-tree", path], b""


def _decode_operation(found: Any, take: _Take) -> Operation:
    match found:
        case ["write", str(path), int(length), int(version)]:
            return NodeWrite(path, take(length), version)
        case ["new", str(path), int(length)]:
            return NewNode(path, take(length))
        case ["next", str(path), int(length)]:
            return NextNode(path, take(length))
        case ["ephemeral", str(path), int(length), bool(is_sequential)]:
            return EphemeralNode(path, take(length), is_sequential)
        case ["delete", str(path)]:
            return NodeDeletion(path)
        case ["remove", str(path), None | int() as version]:
            return Removal(path, version)
        case ["remove-tree", str(path)]:
            return TreeRemoval(path)
    raise ValueError(found)


def join_records(records: Sequence[bytes]) -> bytes:
    """Concatenate records, so that `split_records` can separate them."""
    return b"".join(part for record in records for part in (_LENGTH.pack(len(record)), record))


def split_records(joined: bytes) -> Iterator[bytes]:
    """Yield the records that `join_records` has concatenated. Raises CorruptData."""
    at = 0
    while at < len(joined):
        start = at + _LENGTH.size
        at = start + _LENGTH.unpack(joined[at:start])[0] if start <= len(joined) else len(joined) + 1
        if at > len(joined):
            raise CorruptData("a group of records of the coordination store is incomplete")
        yield joined[start:at]


def encode_state(state: State) -> Iterator[bytes]:
    """Encode a state as records. Equal states have equal records."""
    sessions = [[name, *_encode_session(session)] for name, session in sorted(state.sessions.items())]
    yield _record(["state", state.applied, sessions])
    heads: list[list[Any]] = []
    blobs: list[bytes] = []
    size = count = 0
    for path, node in (("", state.root), *walk(state.root)):
        heads.append([path, len(node.data), node.version, node.owner, node.next_number])
        blobs.append(node.data)
        size += len(node.data) + len(path)
        count += 1
        if size >= _CHUNK:
            yield _record(["nodes", heads], blobs)
            heads, blobs, size = [], [], 0
    yield _record(["nodes", heads], blobs)
    yield _record(["complete", count])


def decode_state(records: Iterator[bytes]) -> State:
    """Parse the records of a state, up to its end record. Raises CorruptData."""
    try:
        return _decode_state(records)
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptData("a snapshot of the coordination store is malformed") from error


def _decode_state(records: Iterator[bytes]) -> State:
    root, count = TreeNode(), 0
    kind, applied, sessions = _opened(next(records, b"[]\n"))[0]
    if kind != "state":
        raise ValueError(kind)
    for record in records:
        head, take = _opened(record)
        match head:
            case ["nodes", list(nodes)]:
                for path, length, version, owner, next_number in nodes:
                    _place(root, path, TreeNode(take(length), version, owner, next_number))
                count += len(nodes)
            case ["complete", int(expected)] if expected == count:
                return State(root, {name: _decode_session(session) for name, *session in sessions}, applied)
            case _:
                break
    raise ValueError("the state is incomplete")


def _place(root: TreeNode, path: str, node: TreeNode) -> None:
    if not path:
        root.data, root.version, root.next_number = node.data, node.version, node.next_number
        return
    parent = find(root, parent_of(path))
    if parent is None:
        raise ValueError(path)
    parent.children[path.rpartition("/")[2]] = node


def _encode_session(record: SessionRecord) -> list[Any]:
    results = [
        [request, list(result.answers), result.refusal and [result.refusal.kind, result.refusal.path]]
        for request, result in sorted(record.results.items())
    ]
    always = [record.heartbeat, sorted(record.ephemerals), record.forgotten, results]
    return [*always, record.timeout_ms] if record.timeout_ms else always


def _decode_session(found: Sequence[Any]) -> SessionRecord:
    heartbeat, ephemerals, forgotten, results, *timeout_ms = found
    return SessionRecord(
        heartbeat,
        frozenset(ephemerals),
        forgotten,
        {
            request: Result(tuple(answers), refusal and CommandRefusal(RefusalKind(refusal[0]), refusal[1]))
            for request, answers, refusal in results
        },
        *timeout_ms,
    )


def _record(head: Sequence[Any], blobs: Iterable[bytes] = ()) -> bytes:
    return b"".join((json.dumps(head, separators=(",", ":")).encode(), b"\n", *blobs))


def _opened(record: bytes) -> tuple[Any, _Take]:
    """Return the parsed head line of a record, and a function that reads the next bytes of its data."""
    line, _, data = record.partition(b"\n")
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CorruptData("a record of the coordination store is malformed") from error
    at = 0

    def take(length: int) -> bytes:
        nonlocal at
        if not 0 <= length <= len(data) - at:
            raise ValueError(length)
        at += length
        return data[at - length : at]

    return head, take
