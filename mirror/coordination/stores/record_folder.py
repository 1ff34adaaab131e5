"""Folders of nodes: caches their children, stores named values, and limits the number of nodes of each group.

Folders that are listed often are cached, and only changed nodes are read again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from mirror.coordination.stores import znodes
from mirror.errors import NotFound
from mirror.model.nodes import NodeChange
from mirror.ports import NodeStore

_K = TypeVar("_K", bound=str)
_T = TypeVar("_T")


class ChildrenCache(Generic[_T]):
    """Cache of the children of one node. Thread-safe.

    Only changed children are read again. `meaning`: parses the path and data of a node; returns None to omit
    it.
    """

    def __init__(self, nodes: NodeStore, path: str, meaning: Callable[[str, bytes], _T | None]) -> None:
        self._nodes = nodes
        self._path = path
        self._meaning = meaning
        self._lock = threading.Lock()
        self._known: dict[str, _T | None] = {}
        self._changed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def newest(self) -> dict[str, _T]:
        """Map the sorted names of the child nodes to their parsed values. The latest changes of other
        processes may be missing."""
        with self._lock:
            names = self._nodes.children(self._path)
            while not self._changed.empty():
                self._known.pop(self._changed.get_nowait(), None)
            paths = {f"{self._path}/{name}": name for name in names if name not in self._known}
            watches = {path: _Noted(self._changed, name) for path, name in paths.items()}
            present = self._nodes.read_present(list(paths), watches.__getitem__) if paths else {}
            read = {paths[path]: self._meaning(path, node.data) for path, node in present.items()}
            self._known = {**self._known, **read}
            self._known = {name: self._known[name] for name in names if name in self._known}
            return {name: value for name, value in self._known.items() if value is not None}

    def changed(self, path: str) -> None:
        """Mark a node as changed, so that the next call reads it again."""
        self._changed.put(path.rpartition("/")[2])


@dataclass(frozen=True, slots=True)
class _Noted:
    """Watch on a child node.

    Watches on the same node are equal, so that only one is registered.
    """

    changed: queue.SimpleQueue[str]
    name: str

    def __call__(self) -> None:
        self.changed.put(self.name)


class RecordFolder(Generic[_K, _T]):
    """Stores values under names, with one node for each value. Thread-safe.

    `name_of`: type of the names. `encode`: serialises a value. `decode`: parses the path and data of a node;
    returns None to omit the node.
    """

    def __init__(
        self,
        nodes: NodeStore,
        parent: str,
        name_of: Callable[[str], _K],
        encode: Callable[[_T], bytes],
        decode: Callable[[str, bytes], _T | None],
    ) -> None:
        self._nodes = nodes
        self._parent = parent
        self._name_of = name_of
        self._encode = encode
        self._decode = decode
        self._folder = ChildrenCache(nodes, parent, decode)

    def all(self) -> Mapping[_K, _T]:
        """Return a mapping of name to value. The latest changes of other instances may be missing."""
        return {self._name_of(znodes.name_of(node)): value for node, value in self._folder.newest().items()}

    def get(self, name: _K) -> _T | None:
        """Return the current value of a name, or None if it is missing."""
        path = self._path(name)
        try:
            return self._decode(path, self._nodes.read(path).data)
        except NotFound:
            return None

    def put(self, name: _K, value: _T) -> None:
        """Store a value under a name. Raises VersionConflict on a concurrent write."""
        znodes.put(self._nodes, self._path(name), self._encode(value))
        self._folder.changed(self._path(name))

    def put_each(self, values: Mapping[_K, _T]) -> None:
        """Store several values in a few transactions."""
        encoded = {name: self._encode(value) for name, value in values.items()}
        self.put_encoded(encoded, lambda _: None, lambda name: self.put(name, values[name]))

    def put_encoded(
        self,
        encoded: Mapping[_K, bytes],
        on_applied: Callable[[Sequence[_K]], None],
        put_alone: Callable[[_K], None],
    ) -> None:
        """Store serialised values in a few transactions.

        `on_applied`: callback with the names of each transaction. `put_alone`: callback for each name whose
        value must be written separately (see `znodes.change_each`). Raises Unreachable, SessionLost, and
        errors of the callbacks.
        """
        paths = {self._path(name): name for name in encoded}
        wanted = {path: encoded[name] for path, name in paths.items()}
        self._change_each(paths, znodes.replacements(self._nodes, wanted), on_applied, put_alone)

    def remove(self, name: _K) -> None:
        """Remove the value of a name."""
        self._nodes.delete_tree(self._path(name))
        self._folder.changed(self._path(name))

    def remove_each(self, names: Collection[_K]) -> None:
        """Remove the values of several names in a few transactions."""
        paths = {self._path(name): name for name in names}
        self._change_each(paths, znodes.deletions(self._nodes, list(paths)), lambda _: None, self.remove)

    def _change_each(
        self,
        paths: Mapping[str, _K],
        changes: Mapping[str, Sequence[NodeChange]],
        on_applied: Callable[[Sequence[_K]], None],
        apply_alone: Callable[[_K], None],
    ) -> None:
        def note_applied(changed: Sequence[str]) -> None:
            for path in changed:
                self._folder.changed(path)
            on_applied([paths[path] for path in changed])

        znodes.change_each(self._nodes, changes, note_applied, lambda path: apply_alone(paths[path]))

    def _path(self, name: _K) -> str:
        return znodes.child(self._parent, name)


_READ_AT_ONCE: Final = 100


class NodeGroups:
    """Caches which group each node belongs to. Thread-safe.

    Nodes are immutable, so each is read only once. `group_of`: returns the group from the path and data of a
    node.
    """

    def __init__(self, nodes: NodeStore, parent: str, group_of: Callable[[str, bytes], str]) -> None:
        self._nodes = nodes
        self._parent = parent
        self._group_of = group_of
        self._known: dict[str, str] = {}

    def note(self, node: str, group: str) -> None:
        """Add a node that the caller has created to the cache."""
        self._known[node] = group

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Map the names of nodes to their groups, in the given order. Omits nodes that were removed in the
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
    """Return the nodes to drop, oldest first, to meet the limits per group and in total.

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
