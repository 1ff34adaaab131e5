"""What a store of nodes, such as ZooKeeper, answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Node:
    """What a znode holds. Version 0 is a version."""

    data: bytes
    version: int


class SessionState(StrEnum):
    """Of a session with such a store. SUSPENDED: disconnected, the session may still live. LOST: it is over,
    and all that hung on it."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"
