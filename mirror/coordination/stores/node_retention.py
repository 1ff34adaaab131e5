"""Retention limits per group in a folder of nodes, so that no group evicts another: the group of each child
node, and the nodes to drop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


def surplus(groups: Mapping[str, str], most_of: Callable[[str], int], most: int) -> Sequence[str]:
    """Return the nodes to drop, oldest first.

    `groups`: group of each node, oldest node first; `most_of`: maximum number of nodes of a group; `most`:
    maximum number of nodes in total. If the total exceeds `most`, the oldest nodes of the groups with the
    most nodes are dropped.
    """
    by_group: dict[str, list[str]] = {}
    for node, group in groups.items():
        by_group.setdefault(group, []).append(node)
    kept = {group: min(len(nodes), most_of(group)) for group, nodes in by_group.items()}
    share = max(kept.values(), default=0)
    while share > 1 and sum(min(count, share) for count in kept.values()) > most:
        share -= 1
    dropped = {node for group, nodes in by_group.items() for node in nodes[: -min(kept[group], share)]}
    left = [node for node in groups if node not in dropped]
    dropped.update(left[:-most])
    return [node for node in groups if node in dropped]
