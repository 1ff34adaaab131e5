"""Immutable tree of nodes. A modified version (`Draft`) copies only the nodes that it changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_INVALID: Final = re.compile(r"/\.{0,2}(?:/|\Z)|[\0\ud800-\udfff]")
"""Matches invalid paths: names that are empty, `.` or `..`, and characters that are not permitted in
paths."""


@dataclass(slots=True)
class TreeNode:
    """A node of the tree. Only the draft that created or copied a node may modify it.

    `owner`: session of an ephemeral node, otherwise empty. `next_number`: number of the next sequential
    child.
    """

    data: bytes = b""
    version: int = 0
    owner: str = ""
    next_number: int = 0
    children: dict[str, TreeNode] = field(default_factory=dict)


def names_of(path: str) -> list[str]:
    """Split a path into node names. Both the empty string and `/` mean the root."""
    return path.strip("/").split("/") if path.strip("/") else []


def is_valid(path: str) -> bool:
    """Return whether ZooKeeper permits this path for a node other than the root."""
    return path.startswith("/") and _INVALID.search(path) is None


def parent_of(path: str) -> str:
    """Return the path of the parent; empty for a child of the root."""
    return path.rpartition("/")[0]


def find(root: TreeNode, path: str) -> TreeNode | None:
    """Return the node at a path, or None if it is missing."""
    node: TreeNode | None = root
    for name in names_of(path):
        if node is None:
            return None
        node = node.children.get(name)
    return node


def walk(root: TreeNode, path: str = "") -> Iterator[tuple[str, TreeNode]]:
    """Yield all descendants of a node with their paths, parents before children.

    Parents come before children. Siblings are sorted by name.
    """
    pending = [(path, root)]
    while pending:
        above, node = pending.pop()
        if node is not root:
            yield above, node
        names = sorted(node.children, reverse=True)
        pending.extend((f"{above}/{name}", node.children[name]) for name in names)


class Draft:
    """A modified version of an immutable tree. The original tree is not modified.

    `root`: root of the new version.
    """

    def __init__(self, root: TreeNode) -> None:
        self._owned: dict[int, TreeNode] = {}
        self.root = self._copy(root)

    def edit(self, names: Sequence[str]) -> TreeNode | None:
        """Return the node at a path for modification, or None if it is missing."""
        node: TreeNode | None = self.root
        for name in names:
            if node is None:
                return None
            node = self.child(node, name)
        return node

    def child(self, parent: TreeNode, name: str) -> TreeNode | None:
        """Return the child of a node for modification, or None if it is missing.

        `parent`: node that `edit` has returned.
        """
        node = parent.children.get(name)
        if node is not None and id(node) not in self._owned:
            node = parent.children[name] = self._copy(node)
        return node

    def add(self, parent: TreeNode, name: str, node: TreeNode) -> None:
        """Add a new child to a node.

        `parent`: node that `edit` has returned.
        """
        self._owned[id(node)] = node
        parent.children[name] = node
        parent.next_number += 1

    def _copy(self, node: TreeNode) -> TreeNode:
        copy = TreeNode(node.data, node.version, node.owner, node.next_number, dict(node.children))
        self._owned[id(copy)] = copy
        return copy
