"""Where definitions of datastreams are kept."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, cast

from mirror.coordination.stores import znodes
from mirror.coordination.stores.deletions.record import Deletions
from mirror.coordination.stores.documents.definition import from_document, to_document
from mirror.coordination.stores.guards.guard import Guard
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
"""What ZooKeeper accepts below a node."""


@dataclass(frozen=True, slots=True)
class StoredDatastream:
    """A definition and the znode version it was read at."""

    datastream: Datastream
    version: int


@dataclass(frozen=True, slots=True)
class DamagedDefinition:
    """A definition that cannot be read back, and why. `last`: the newest version of it that this process
    could read; what runs of it goes on."""

    name: DatastreamName
    problem: str
    version: int
    last: Datastream | None = None

    def error(self) -> DamagedState:
        """For a caller that needs the definition itself."""
        return DamagedState(
            f"the definition of datastream {self.name} is damaged: {self.problem}",
            advice="delete the datastream, or restore its znode",
        )


@dataclass(frozen=True)
class Definitions:
    """What is stored: definitions that can be read, and those that cannot, each sorted by name."""

    readable: tuple[StoredDatastream, ...] = ()
    damaged: tuple[DamagedDefinition, ...] = ()

    @cached_property
    def datastreams(self) -> tuple[Datastream, ...]:
        """What is in force, by name: of a damaged definition the last version that could be read."""
        known = [one.datastream for one in self.readable]
        last = [one.last for one in self.damaged if one.last is not None]
        return tuple(sorted([*known, *last], key=lambda one: one.name) if last else known)

    @property
    def is_whole(self) -> bool:
        """Whether every datastream that may have tasks is among `datastreams`."""
        return all(one.last is not None for one in self.damaged)


class DefinitionStore:
    """Definitions in ZooKeeper; they outlive every instance."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._deletions = Deletions(nodes)

    def names(self, watch: Watch | None = None) -> tuple[DatastreamName, ...]:
        """All names, sorted; the watch fires when one is added or removed."""
        children = self._nodes.children(znodes.DATASTREAMS, watch)
        return cast("tuple[DatastreamName, ...]", tuple(sorted(map(znodes.name_of, children))))

    def look(self, name: DatastreamName, watch: Watch | None = None) -> StoredDatastream | DamagedDefinition:
        """One definition, readable or not. Raises NotFound."""
        for path in _paths(name):
            try:
                node = self._nodes.read(path, watch)
            except NotFound:
                continue
            return _found(name, path, node)
        shown = name if len(name) <= bounds.LONGEST_NAME else bounds.shown(name)
        raise NotFound(f"there is no datastream {shown}")

    def get(self, name: DatastreamName) -> StoredDatastream:
        """Raises NotFound, DamagedState."""
        found = self.look(name)
        if isinstance(found, DamagedDefinition):
            raise found.error()
        return found

    def all(self) -> Definitions:
        """Every definition, of which one that is damaged keeps nobody from the others."""
        return _in_order(list(self.look_at(self.names()).values()))

    def look_at(
        self, names: Sequence[DatastreamName], watch_of: Callable[[DatastreamName], Watch] | None = None
    ) -> Mapping[DatastreamName, StoredDatastream | DamagedDefinition]:
        """Those of the definitions that are there, readable or not; many cost one look. `watch_of`: by name,
        the watch that is left at a definition."""
        paths = {path: name for name in names if 0 < len(path := _path(name)) <= _LONGEST_PATH}
        of_path = None if watch_of is None else lambda path: watch_of(paths[path])
        present = self._nodes.read_present(list(paths), of_path)
        found: dict[DatastreamName, StoredDatastream | DamagedDefinition] = {}
        for name in names:
            if (node := present.get(_path(name))) is not None:
                found[name] = _found(name, _path(name), node)
            else:
                with contextlib.suppress(NotFound):  # deleted since its name was listed
                    found[name] = self.look(name, watch_of(name) if watch_of is not None else None)
        return found

    def catch_up(self) -> None:
        """What is read from now on is at least as new as what anybody had written before."""
        self._nodes.sync()

    def guard(self, names: Iterable[str]) -> Guard:
        """Return the counters of changes under these names, as they are now."""
        guard = Guard(self._nodes, names)
        guard.read()
        return guard

    def create(self, datastream: Datastream, entries: Sequence[NodeChange] = ()) -> StoredDatastream:
        """Returns what is stored then. The key of its `creation` is noted with it: a key is given to one
        datastream at a time. `entries`: what else the transaction contains: all or nothing is stored. Raises
        AlreadyExists, KeyReused, VersionConflict where an entry fails, and InvalidRequest when it does not
        fit into a znode."""
        definition = NewNode(_path(datastream.name), znodes.encode(to_document(datastream)))
        creation, name = datastream.creation, datastream.name
        notes: list[NodeChange] = [] if creation is None else [NewNode(_note_path(creation), name.encode())]
        while True:
            try:
                self._nodes.change_together((definition, *notes, *entries))
            except (AlreadyExists, VersionConflict, NotFound) as error:
                with contextlib.suppress(NotFound):
                    self.look(name)
                    raise taken(name) from error
                noted, notes = notes, [] if creation is None else [self._note_of(creation, name)]
                if noted == notes:
                    raise VersionConflict(f"{name} was checked beside what has changed") from error
            else:
                return StoredDatastream(datastream, 0)

    def _note_of(self, creation: Creation, name: DatastreamName) -> NodeChange:
        """What notes that a key is given to a datastream, if no other has it. A definition that was damaged
        may have left a note behind. Raises KeyReused."""
        path, data = _note_path(creation), name.encode()
        try:
            node = self._nodes.read(path)
        except NotFound:
            return NewNode(path, data)
        holder = DatastreamName(node.data.decode(errors="replace"))
        with contextlib.suppress(NotFound):
            found = self.look(holder)
            if isinstance(found, DamagedDefinition) or creation.has_key_of(found.datastream.creation):
                raise reused(holder)
        return NodeWrite(path, data, node.version)

    def replace(
        self, stored: StoredDatastream, datastream: Datastream, entries: Sequence[NodeChange] = ()
    ) -> StoredDatastream:
        """Compare and set; returns what is stored then. `entries`: what else the transaction contains; all or
        nothing is stored. Raises VersionConflict, NotFound, what the entries raise, and InvalidRequest when
        it does not fit into a znode."""
        write = replacement(stored, datastream)
        if not entries:
            return StoredDatastream(datastream, self._nodes.write(write.path, write.data, write.version))
        self._nodes.change_together((write, *entries))
        return StoredDatastream(datastream, stored.version + 1)

    def replace_together(
        self, changes: Sequence[tuple[StoredDatastream, Datastream]]
    ) -> tuple[StoredDatastream, ...]:
        """All of them or none; returns what is stored then, in their order. Raises as `replace` does;
        InvalidRequest also where they do not fit into one transaction."""
        writes = [replacement(stored, after) for stored, after in changes]
        size = sum(len(one.path.encode()) + len(one.data) for one in writes)
        if size > znodes.CHUNK_BYTES:
            raise InvalidRequest(
                f"{counted(len(writes), 'definition')} of {size} bytes: too much to be changed as one",
                advice="change them one by one",
            )
        self._nodes.change_together(writes)
        return tuple(StoredDatastream(after, stored.version + 1) for stored, after in changes)

    def remove(self, name: DatastreamName, entries: Sequence[NextNode] = (), now_ms: int = 0) -> None:
        """Remove a definition for good, whatever its znode holds, and record that it was deleted. `entries`:
        what says so; stored once, also where several remove it. `now_ms`: what counts as the moment of its
        creation where the definition cannot say."""
        own, *others = _paths(name) or (None,)
        for path in others:
            self._nodes.delete_tree(path)
        while own is not None:
            for below in self._nodes.children(own):
                self._nodes.delete_tree(f"{own}/{below}")
            try:
                found = _found(name, own, self._nodes.read(own))
            except NotFound:
                return
            # Read again where somebody has removed it, or put something below it, meanwhile.
            with contextlib.suppress(AlreadyExists, VersionConflict, NotFound):
                known = found.datastream.created_ms if isinstance(found, StoredDatastream) else None
                deletion = self._deletions.changes(name, now_ms if known is None else known)
                self._nodes.change_together((NodeDeletion(own), *self._notes_of(found), *deletion, *entries))
                return

    def _notes_of(self, found: StoredDatastream | DamagedDefinition) -> tuple[NodeDeletion, ...]:
        """What goes with a definition, so that its key is free then."""
        if isinstance(found, DamagedDefinition) or found.datastream.creation is None:
            return ()
        path = _note_path(found.datastream.creation)
        with contextlib.suppress(NotFound):
            if self._nodes.read(path).data == found.datastream.name.encode():
                return (NodeDeletion(path),)
        return ()


def replacement(stored: StoredDatastream, datastream: Datastream) -> NodeWrite:
    """Raises InvalidRequest when it does not fit into a znode."""
    return NodeWrite(_path(datastream.name), znodes.encode(to_document(datastream)), stored.version)


def _note_path(creation: Creation) -> str:
    return znodes.child(znodes.CREATIONS, creation.key)


def taken(name: DatastreamName) -> AlreadyExists:
    """For a creation of a name that another datastream has."""
    return AlreadyExists(
        f"there is a datastream {name} already", advice="choose another name or delete it first"
    )


class DefinitionCache:
    """All definitions, of which only those are read again that have changed. For any thread.

    `wake` is called, from any thread, when something has changed.
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
        """Raises what reading raises; what was not read then is read by the next call."""
        with self._lock:
            return self._all()

    def newest(self) -> Definitions:
        """As `all`, with everything that anybody created or removed before this call. Of many calls at once
        those that wait for one listing share the next."""
        before = self._listings
        with self._lock:
            if self._listings == before:
                self._are_names_stale = True
            return self._all()

    def changed(self, name: DatastreamName) -> None:
        """The caller has written or removed this one: the next look reads it."""
        self._changed.put(name)

    def look_again(self) -> None:
        """Nothing that was read may count any more. What damaged definitions were last is kept."""
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
            found = self._store.look_at(stale, lambda name: _Changed(self._changed, name, self._wake))
            for name in stale:
                self._note(name, found.get(name))
            self._stale.clear()
        if self._sorted is None:
            # One that was changed may be known before its name is listed.
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
    """A watch. Equal for the same node, so that it is left there once."""

    changed: queue.SimpleQueue[DatastreamName | None]
    name: DatastreamName | None
    wake: Watch

    def __call__(self) -> None:
        self.changed.put(self.name)
        self.wake()


def _in_order(found: Sequence[StoredDatastream | DamagedDefinition]) -> Definitions:
    """They come by name."""
    readable = tuple([one for one in found if isinstance(one, StoredDatastream)])
    return Definitions(readable, tuple([one for one in found if isinstance(one, DamagedDefinition)]))


def _found(name: DatastreamName, path: str, node: Node) -> StoredDatastream | DamagedDefinition:
    try:
        return StoredDatastream(_read(name, path, node), node.version)
    except (InvalidRequest, DamagedState) as error:
        return DamagedDefinition(name, error.message[: bounds.LONGEST_REASON], node.version)


def _read(name: DatastreamName, path: str, node: Node) -> Datastream:
    if path != _path(name):
        raise InvalidRequest("no definition has a znode of this name")
    datastream = _parsed(node.data, path)
    if datastream.name != name:
        raise InvalidRequest(f"it names itself {bounds.shown(datastream.name)}")
    return datastream


@lru_cache(1_024)
def _parsed(data: bytes, path: str) -> Datastream:
    """Everybody in this process reads what is new: once for all of them."""
    return from_document(znodes.decode(data, path))


def _path(name: str) -> str:
    return znodes.child(znodes.DATASTREAMS, name)


def _paths(name: str) -> tuple[str, ...]:
    """Where a definition of this name may be: its own znode, or one that somebody made by hand."""
    own = _path(name)
    if not 0 < len(own) <= _LONGEST_PATH:
        return ()
    by_hand = f"{znodes.DATASTREAMS}/{name}"
    return (own, by_hand) if _NODE_NAME.fullmatch(name) and by_hand != own else (own,)
