"""Commands of the state machine and their results."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from mirror.model.nodes import NewNode, NextNode, NodeDeletion, NodeWrite

LARGEST_PATH: Final = 4096
"""Limit of the length of a path in characters."""
LARGEST_NODE: Final = 1024 * 1024
"""Limit of the data of one node in bytes, as in ZooKeeper."""


@dataclass(frozen=True, slots=True)
class EphemeralNode:
    """Creation of a node that is deleted with its session. `is_sequential`: see `NextNode`."""

    path: str
    data: bytes
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """Deletion of a node without children. A missing node is not an error.

    `version`: required version of the node, None for any.
    """

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class TreeRemoval:
    """Deletion of a node and all its descendants. A missing node is not an error."""

    path: str


Operation = NodeWrite | NodeDeletion | NextNode | NewNode | EphemeralNode | Removal | TreeRemoval


@dataclass(frozen=True, slots=True)
class OpenSession:
    """Command: start a session with a new id.

    If the session is already open, the command has no effect.

    `timeout_ms`: time without heartbeats after which other instances may end the session; 0 if there is no
    other instance.
    """

    session: str
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Command: heartbeat of a session.

    Heartbeats are numbered in ascending order. A heartbeat with an older number has no effect.
    """

    session: str
    number: int


@dataclass(frozen=True, slots=True)
class EndSession:
    """Command: end a session and delete its ephemeral nodes. `heartbeat`: end the session only if its last
    heartbeat has this number, so that a late heartbeat keeps the session open; None: always end it."""

    session: str
    heartbeat: int | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Command: apply several operations of a session in order and atomically.

    `request`: number of the command in its session, starting at 1. A command with a repeated number has no
    effect and returns the first result.
    """

    session: str
    request: int
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class SnapshotNote:
    """Command: announce a complete snapshot of the shared log up to an offset. Changes no node.

    `size`: size of the snapshot in bytes.
    """

    next_offset: int
    size: int


Command = OpenSession | Heartbeat | EndSession | Change | SnapshotNote


class RefusalKind(StrEnum):
    """Reason why a command was rejected."""

    NOT_FOUND = "not-found"
    EXISTS = "exists"
    CONFLICT = "conflict"
    """The node has another version than required, or it has children."""
    INVALID = "invalid"
    NO_SESSION = "no-session"
    ALIVE = "alive"
    """The session has sent a later heartbeat, so it was not ended."""
    FORGOTTEN = "forgotten"
    """The request is older than all stored results, and may have been applied."""


@dataclass(frozen=True, slots=True)
class CommandRefusal:
    """Rejection of a command, which had no effect.

    `path`: node of the failed operation.
    """

    kind: RefusalKind
    path: str = ""


Answer = str | int | None
"""Result of one operation: path of a created node, version of a written node, or None."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths of changed nodes, whose watches fire.

    `data`: created, written or deleted nodes. `children`: created or deleted nodes, and their parents.
    """

    data: frozenset[str] = frozenset()
    children: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a command.

    `changes`: empty for a repeated request.
    """

    answers: tuple[Answer, ...] = ()
    refusal: CommandRefusal | None = None
    changes: Changes = field(default_factory=Changes)
