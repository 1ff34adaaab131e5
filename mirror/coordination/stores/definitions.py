"""Storage of datastream definitions in the coordination store."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, cast

from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.coordination.stores.deletion_record import Deletions
from mirror.coordination.stores.guard import Guard
from mirror.errors import AlreadyExists, DamagedState, InvalidRequest, NotFound, VersionConflict
from mirror.model import bounds
from mirror.model.datastreams.creation import Creation, reused
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.nodes import NewNode, NextNode, Node, NodeChange, NodeDeletion, NodeWrite
from mirror.ports import NodeStore, Watch
from mirror.wording import counted

_LONGEST_PATH: Final = 4_000
_NODE_NAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff/]+")
"""Characters that ZooKeeper accepts in node names."""


@dataclass(frozen=True, slots=True)
class StoredDatastream:
    """A stored definition of a datastream with the version of its node."""

    datastream: Datastream
    version: int


@dataclass(frozen=True, slots=True)
class DamagedDefinition:
    """A definition that cannot be parsed. Running lanes of the datastream continue. `problem`: reason why it
    cannot be parsed. `last`: latest version that this process could parse."""

    name: DatastreamName
    problem: str
    version: int
    last: Datastream | None = None

    def error(self) -> DamagedState:
        """Return the error to raise if a caller needs the definition of this datastream."""
        return DamagedState(
            f"the definition of datastream {self.name} is damaged: {self.problem}",
            advice="delete the datastream, or restore its node",
        )


@dataclass(frozen=True)
class Definitions:
    """All stored definitions, separated into readable and damaged ones."""

    readable: tuple[StoredDatastream, ...] = ()
    damaged: tuple[DamagedDefinition, ...] = ()

    @cached_property
    def datastreams(self) -> tuple[Datastream, ...]:
        """Definitions, sorted by name. A damaged definition is replaced by its last readable version."""
        known = [stored.datastream for stored in self.readable]
        last = [damaged.last for damaged in self.damaged if damaged.last is not None]
        return tuple(sorted([*known, *last], key=lambda datastream: datastream.name) if last else known)

    @property
    def is_whole(self) -> bool:
        """True if `datastreams` contains every datastream that may have tasks."""
        return all(damaged.last is not None for damaged in self.damaged)


class DefinitionStore:
    """Definitions in the coordination store, which also exist while no instance runs."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._deletions = Deletions(nodes)

    def names(self, watch: Watch | None = None) -> tuple[DatastreamName, ...]:
        """Return the names of all datastreams, sorted.

        `watch`: fires when a name is added or removed.
        """
        children = self._nodes.children(znodes.DATASTREAMS, watch)
        return cast("tuple[DatastreamName, ...]", tuple(sorted(map(znodes.name_of, children))))

    def read(self, name: DatastreamName, watch: Watch | None = None) -> StoredDatastream | DamagedDefinition:
        """Return the readable or damaged definition of a datastream. Raises NotFound."""
        for path in _paths(name):
            try:
                node = self._nodes.read(path, watch)
            except NotFound:
                continue
            return _found(name, path, node)
        shown = name if len(name) <= bounds.LONGEST_NAME else bounds.shown(name)
        raise NotFound(f"datastream {shown} does not exist")

    def get(self, name: DatastreamName) -> StoredDatastream:
        """Return the readable definition of a datastream. Raises NotFound, DamagedState."""
        found = self.read(name)
        if isinstance(found, DamagedDefinition):
            raise found.error()
        return found

    def all(self) -> Definitions:
        """Return all definitions, readable and damaged ones separately."""
        return _in_order(list(self.read_each(self.names()).values()))

    def read_each(
        self, names: Sequence[DatastreamName], watch_of: Callable[[DatastreamName], Watch] | None = None
    ) -> Mapping[DatastreamName, StoredDatastream | DamagedDefinition]:
        """Read the named definitions in one batch. Missing definitions are omitted.

        `watch_of`: returns the watch for a definition by name.
        """
        paths = {path: name for name in names if 0 < len(path := _path(name)) <= _LONGEST_PATH}
        of_path = None if watch_of is None else lambda path: watch_of(paths[path])
        present = self._nodes.read_present(list(paths), of_path)
        found: dict[DatastreamName, StoredDatastream | DamagedDefinition] = {}
        for name in names:
            if (node := present.get(_path(name))) is not None:
                found[name] = _found(name, _path(name), node)
            else:
                with contextlib.suppress(NotFound):  # deleted since its name was listed
                    found[name] = self.read(name, watch_of(name) if watch_of is not None else None)
        return found

    def catch_up(self) -> None:
        """Ensure that later reads include all writes completed before this call."""
        self._nodes.sync()

    def guard(self, names: Iterable[str]) -> Guard:
        """Return a guard that detects concurrent changes of the named groups and owners."""
        guard = Guard(self._nodes, names)
        guard.read()
        return guard

    def create(self, datastream: Datastream, entries: Sequence[NodeChange] = ()) -> StoredDatastream:
        """Store a new definition, and return it with its version.

        The idempotency key of the creation is also stored, because a key belongs to one datastream.
        `entries`: further changes of the same transaction. Raises AlreadyExists; KeyReused; VersionConflict
        if an entry fails; InvalidRequest if the definition does not fit into a node.
        """
        datastream = self._deletions.created_after(datastream)
        definition = NewNode(_path(datastream.name), node_codec.encode(to_document(datastream)))
        creation, name = datastream.creation, datastream.name
        notes: list[NodeChange] = [] if creation is None else [NewNode(_note_path(creation), name.encode())]
        while True:
            try:
                self._nodes.change_together((definition, *notes, *entries))
            except (AlreadyExists, VersionConflict, NotFound) as error:
                with contextlib.suppress(NotFound):
                    self.read(name)
                    raise taken(name) from error
                noted, notes = notes, [] if creation is None else [self._note_of(creation, name)]
                if noted == notes:
                    raise VersionConflict(
                        f"another datastream was changed while {name} was checked; retry"
                    ) from error
            else:
                return StoredDatastream(datastream, 0)

    def _note_of(self, creation: Creation, name: DatastreamName) -> NodeChange:
        """Return the change that assigns an idempotency key to a datastream. Raises KeyReused.

        Replaces an obsolete record of the key, which may remain from a damaged definition.
        """
        path, data = _note_path(creation), name.encode()
        try:
            node = self._nodes.read(path)
        except NotFound:
            return NewNode(path, data)
        holder = DatastreamName(node.data.decode(errors="replace"))
        with contextlib.suppress(NotFound):
            found = self.read(holder)
            if isinstance(found, DamagedDefinition) or creation.has_key_of(found.datastream.creation):
                raise reused(holder)
        return NodeWrite(path, data, node.version)

    def replace(
        self, stored: StoredDatastream, datastream: Datastream, entries: Sequence[NodeChange] = ()
    ) -> StoredDatastream:
        """Replace a definition with compare-and-set, and return it with its new version.

        `entries`: further changes of the same transaction. Raises VersionConflict, NotFound, errors of the
        entries, and InvalidRequest if the definition does not fit into a node.
        """
        write = replacement(stored, datastream)
        if not entries:
            return StoredDatastream(datastream, self._nodes.write(write.path, write.data, write.version))
        self._nodes.change_together((write, *entries))
        return StoredDatastream(datastream, stored.version + 1)

    def replace_together(
        self, changes: Sequence[tuple[StoredDatastream, Datastream]]
    ) -> tuple[StoredDatastream, ...]:
        """Replace several definitions atomically, and return them in order.

        Raises the errors of `replace`, and InvalidRequest if the changes do not fit into one transaction.
        """
        writes = [replacement(stored, after) for stored, after in changes]
        size = sum(len(write.path.encode()) + len(write.data) for write in writes)
        if size > node_codec.CHUNK_BYTES:
            raise InvalidRequest(
                f"cannot change {counted(len(writes), 'definition')} of {size} bytes in one transaction",
                advice="change them one by one",
            )
        self._nodes.change_together(writes)
        return tuple(StoredDatastream(after, stored.version + 1) for stored, after in changes)

    def remove(
        self,
        name: DatastreamName,
        entries: Sequence[NextNode] = (),
        now_ms: int = 0,
        known: StoredDatastream | DamagedDefinition | None = None,
        records: Sequence[str] = (),
    ) -> bool:
        """Remove a readable or damaged definition, and record its deletion.

        `entries`: nodes with the result. The nodes are created only once, even if several callers remove the
        definition at the same time. `now_ms`: used if the creation time is unknown. `known`: the definition
        as read. Returns False, and removes nothing, if another version is stored, which may belong to a new
        datastream with the same name. If None, any version is removed. `records`: paths of further nodes that
        are removed with the definition.
        """
        own, *others = _paths(name) or (None,)
        for path in others:
            self._nodes.delete_tree(path)
        while own is not None:
            try:
                found = _found(name, own, self._nodes.read(own))
            except NotFound:
                break
            if known is not None and not _is_version(found, known):
                return False
            for below in self._nodes.children(own):
                self._nodes.delete_tree(f"{own}/{below}")
            # Read again if the node was changed or removed, or got a child, concurrently.
            with contextlib.suppress(AlreadyExists, VersionConflict, NotFound):
                created_ms = found.datastream.created_ms if isinstance(found, StoredDatastream) else None
                deletion = self._deletions.changes(name, now_ms if created_ms is None else created_ms)
                # A deletion alone would not check the version.
                removal: list[NodeChange] = [NodeWrite(own, b"", found.version), NodeDeletion(own)]
                for further in znodes.deletions(self._nodes, records).values():
                    removal += further
                removal += (*self._notes_of(found), *deletion, *entries)
                self._nodes.change_together(removal)
                break
        return True

    def _notes_of(self, found: StoredDatastream | DamagedDefinition) -> tuple[NodeDeletion, ...]:
        """Return the change that releases the idempotency key used to create a datastream."""
        if isinstance(found, DamagedDefinition) or found.datastream.creation is None:
            return ()
        path = _note_path(found.datastream.creation)
        with contextlib.suppress(NotFound):
            if self._nodes.read(path).data == found.datastream.name.encode():
                return (NodeDeletion(path),)
        return ()


def replacement(stored: StoredDatastream, datastream: Datastream) -> NodeWrite:
    """Return the node write that replaces a definition. Raises InvalidRequest if it does not fit into a
    node."""
    return NodeWrite(_path(datastream.name), node_codec.encode(to_document(datastream)), stored.version)


def _is_version(
    found: StoredDatastream | DamagedDefinition, known: StoredDatastream | DamagedDefinition
) -> bool:
    """Return whether a stored definition equals a known one, or has its version if that one is damaged."""
    if isinstance(known, StoredDatastream):
        return found == known
    return isinstance(found, DamagedDefinition) and found.version == known.version


def _note_path(creation: Creation) -> str:
    return znodes.child(znodes.CREATIONS, creation.key)


def taken(name: DatastreamName) -> AlreadyExists:
    """Return the error for a name that is already in use."""
    return AlreadyExists(f"datastream {name} already exists", advice="choose another name or delete it first")


class DefinitionCache:
    """Cache of all definitions. Thread-safe.

    Only changed definitions are read again.

    `wake`: callback after a change, called from any thread.
    """

    def __init__(self, store: DefinitionStore, wake: Watch) -> None:
        self._store = store
        self._wake = wake
        self._lock = threading.Lock()
        self._known: dict[DatastreamName, StoredDatastream | DamagedDefinition] = {}
        self._changed: queue.SimpleQueue[DatastreamName | None] = queue.SimpleQueue()
        self._stale: set[DatastreamName] = set()
        self._are_names_stale = True
        self._names: tuple[DatastreamName, ...] = ()
        self._listed: frozenset[DatastreamName] = frozenset()
        self._sorted: Definitions | None = None
        self._listings = 0

    def all(self) -> Definitions:
        """Return all definitions.

        After an error, the next call continues with the remaining definitions.
        """
        with self._lock:
            return self._all()

    def newest(self) -> Definitions:
        """Return all definitions, including every change made before this call.

        Concurrent callers share one listing.
        """
        before = self._listings
        with self._lock:
            if self._listings == before:
                self._are_names_stale = True
            return self._all()

    def changed(self, name: DatastreamName) -> None:
        """Mark a definition as changed, so that the next call reads it again."""
        self._changed.put(name)

    def invalidate(self) -> None:
        """Invalidate the cached definitions. Last readable versions of damaged definitions are kept."""
        with self._lock:
            self._are_names_stale = True
            self._stale.update(self._known)

    def _all(self) -> Definitions:
        self._take_in_changes()
        if self._are_names_stale:
            self._listings += 1
            names = self._store.names(_Changed(self._changed, None, self._wake))
            if names != self._names:
                self._names, self._listed, self._sorted = names, frozenset(names), None
                for name in self._known.keys() - self._listed:
                    del self._known[name]
            self._stale = (self._stale & self._listed) | (self._listed - self._known.keys())
            self._are_names_stale = False
        if self._stale:
            self._sorted = None
            stale = sorted(self._stale)
            found = self._store.read_each(stale, lambda name: _Changed(self._changed, name, self._wake))
            for name in stale:
                self._note(name, found.get(name))
            self._stale.clear()
        if self._sorted is None:
            # A definition changed by the caller may be known before its name is listed.
            order = self._names if self._known.keys() <= self._listed else sorted(self._known)
            self._sorted = _in_order([self._known[name] for name in order if name in self._known])
        return self._sorted

    def _note(self, name: DatastreamName, found: StoredDatastream | DamagedDefinition | None) -> None:
        before = self._known.pop(name, None)
        if isinstance(found, DamagedDefinition):
            known = before.datastream if isinstance(before, StoredDatastream) else None
            last = before.last if isinstance(before, DamagedDefinition) else known
            self._known[name] = replace(found, last=last)
        elif found is not None:
            self._known[name] = found

    def _take_in_changes(self) -> None:
        while not self._changed.empty():
            name = self._changed.get_nowait()
            if name is None:
                self._are_names_stale = True
            else:
                self._stale.add(name)


@dataclass(frozen=True, slots=True)
class _Changed:
    """Watch callback for the node of a definition.

    Watches on the same node are equal, so that only one is registered.
    """

    changed: queue.SimpleQueue[DatastreamName | None]
    name: DatastreamName | None
    wake: Watch

    def __call__(self) -> None:
        self.changed.put(self.name)
        self.wake()


def _in_order(found: Sequence[StoredDatastream | DamagedDefinition]) -> Definitions:
    """Separate readable from damaged definitions. The input must be sorted by name."""
    readable = tuple([definition for definition in found if isinstance(definition, StoredDatastream)])
    return Definitions(
        readable, tuple([definition for definition in found if isinstance(definition, DamagedDefinition)])
    )


def _found(name: DatastreamName, path: str, node: Node) -> StoredDatastream | DamagedDefinition:
    try:
        return StoredDatastream(_read(name, path, node), node.version)
    except (InvalidRequest, DamagedState) as error:
        return DamagedDefinition(name, error.message[: bounds.LONGEST_REASON], node.version)


def _read(name: DatastreamName, path: str, node: Node) -> Datastream:
    if path != _path(name):
        raise InvalidRequest("the node name is not a valid datastream name")
    datastream = _parsed(node.data, path)
    if datastream.name != name:
        raise InvalidRequest(f"the definition names datastream {bounds.shown(datastream.name)} instead")
    return datastream


@lru_cache(1_024)
def _parsed(data: bytes, path: str) -> Datastream:
    """Parse a definition. All readers in this process share a cache of parsed definitions."""
    return from_document(node_codec.decode(data, path))


def _path(name: str) -> str:
    return znodes.child(znodes.DATASTREAMS, name)


def _paths(name: str) -> tuple[str, ...]:
    """Return the paths where a definition may be stored: its own, and that of a manually created node."""
    own = _path(name)
    if not 0 < len(own) <= _LONGEST_PATH:
        return ()
    by_hand = f"{znodes.DATASTREAMS}/{name}"
    return (own, by_hand) if _NODE_NAME.fullmatch(name) and by_hand != own else (own,)
