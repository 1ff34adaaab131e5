"""Values exchanged with a node store, such as ZooKeeper."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Node:
    """Data and version of a node."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """Conditional write: replaces the data of a node if it has this version."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class NodeDeletion:
    """Deletion of an existing node without children."""

    path: str


@dataclass(frozen=True, slots=True)
class NextNode:
    """Creation of a sequential node: the store appends the next number of the parent to the path."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class NewNode:
    """Creation of a node at a path that must not exist."""

    path: str
    data: bytes


NodeChange = NodeWrite | NodeDeletion | NextNode | NewNode


class SessionState(StrEnum):
    """State of the session with a node store.

    SUSPENDED: disconnected, but the session may still be alive. LOST: the session has expired, and its
    ephemeral nodes were deleted.
    """

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
