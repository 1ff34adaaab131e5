"""What a store of nodes, such as ZooKeeper, answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Node:
    """What a znode holds. Version 0 is a version."""

    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class NodeWrite:
    """Data that replaces a node's if the version is exactly this one."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class NodeDeletion:
    """A node that goes: it is there, and has none below it."""

    path: str


@dataclass(frozen=True, slots=True)
class NextNode:
    """A node that is made, under the path and the next number of its parent."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class NewNode:
    """A node that is made under exactly this path, where none is."""

    path: str
    data: bytes


NodeChange = NodeWrite | NodeDeletion | NextNode | NewNode


class SessionState(StrEnum):
    """Of a session with such a store. SUSPENDED: disconnected, the session may still live. LOST: it is over,
    and all that hung on it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
