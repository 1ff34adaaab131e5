"""Caches the group of each child of a node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mirror.ports import NodeStore

_READ_AT_ONCE: Final = 100


class NodeGroups:
    """Groups by node. Thread-safe.

    Nodes are immutable, so each is read only once. `group_of`: returns the group from the path and data of a
    node.
    """

    def __init__(self, nodes: NodeStore, parent: str, group_of: Callable[[str, bytes], str]) -> None:
        self._nodes = nodes
        self._parent = parent
        self._group_of = group_of
        self._known: dict[str, str] = {}

    def note(self, node: str, group: str) -> None:
        """Record the group of a node that the caller has created."""
        self._known[node] = group

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Return the group of each node, in the given order. Omits nodes that were removed in the
        meantime."""
        known = self._known
        unknown = [f"{self._parent}/{name}" for name in names if name not in known]
        read: dict[str, str] = {}
        for start in range(0, len(unknown), _READ_AT_ONCE):
            for path, node in self._nodes.read_present(unknown[start : start + _READ_AT_ONCE]).items():
                read[path.rpartition("/")[2]] = self._group_of(path, node.data)
        both = {**known, **read}
        found = {name: both[name] for name in names if name in both}
        self._known = found
        return dict(found)
