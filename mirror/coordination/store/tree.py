"""Tree of nodes. A published tree is never modified: a draft copies the nodes that it changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class TreeNode:
    """One node. Only the draft that created or copied it may modify it.

    `owner`: session of an ephemeral node, else empty. `next_number`: number of the next sequential child.
    """

    data: bytes = b""
    version: int = 0
    owner: str = ""
    next_number: int = 0
    children: dict[str, TreeNode] = field(default_factory=dict)


def names_of(path: str) -> list[str]:
    """Split a path into names. The root is `` or `/`."""
    return path.strip("/").split("/") if path.strip("/") else []


def is_valid(path: str) -> bool:
    """Return whether ZooKeeper allows this path for a node other than the root."""
    if not path.startswith("/") or "\0" in path:
        return False
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return all(name not in {"", ".", ".."} for name in path[1:].split("/"))


def parent_of(path: str) -> str:
    """Return the path of the parent; empty for a child of the root."""
    return path.rpartition("/")[0]


def find(root: TreeNode, path: str) -> TreeNode | None:
    """Return the node at a path, None if it is missing."""
    node: TreeNode | None = root
    for name in names_of(path):
        if node is None:
            return None
        node = node.children.get(name)
    return node


def walk(root: TreeNode, path: str = "") -> Iterator[tuple[str, TreeNode]]:
    """Yield all nodes below a node with their paths, parents first, names in order."""
    pending = [(path, root)]
    while pending:
        above, node = pending.pop()
        if node is not root:
            yield above, node
        names = sorted(node.children, reverse=True)
        pending.extend((f"{above}/{name}", node.children[name]) for name in names)


class Draft:
    """Next version of a tree, with the root `root`. The former tree is not modified."""

    def __init__(self, root: TreeNode) -> None:
        self._owned: dict[int, TreeNode] = {}
        self.root = self._copy(root)

    def edit(self, names: Sequence[str]) -> TreeNode | None:
        """Return a node for modification, None if it is missing."""
        node = self.root
        for name in names:
            below = node.children.get(name)
            if below is None:
                return None
            if id(below) not in self._owned:
                below = node.children[name] = self._copy(below)
            node = below
        return node

    def add(self, parent: TreeNode, name: str, node: TreeNode) -> None:
        """Add a new child to a node from `edit`."""
        self._owned[id(node)] = node
        parent.children[name] = node
        parent.next_number += 1

    def _copy(self, node: TreeNode) -> TreeNode:
        copy = TreeNode(node.data, node.version, node.owner, node.next_number, dict(node.children))
        self._owned[id(copy)] = copy
        return copy
