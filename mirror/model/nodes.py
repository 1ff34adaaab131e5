"""What a store of nodes, such as ZooKeeper, answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """What a znode holds. Version 0 is a version."""

    data: bytes
    version: int
