"""Datastream definitions as documents, and where they are kept."""

from __future__ import annotations

import queue
from dataclasses import asdict, dataclass
from typing import Any

from mirror.coordination import znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound
from mirror.model.datastream import Datastream, DatastreamStatus, LatencyObjective, Pause, StartPosition
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.load import TaskLimits
from mirror.model.topics import TopicNaming, TopicSelection
from mirror.ports import NodeStore, Watch


def to_document(datastream: Datastream) -> dict[str, Any]:
    """A definition as JSON-ready values."""
    return {
        "name": datastream.name,
        "source": datastream.source,
        "topics": asdict(datastream.selection),
        "destination": datastream.destination,
        "naming": datastream.naming.template,
        "status": datastream.status.value,
        "start": datastream.start.value,
        "limits": asdict(datastream.limits),
        "objective": asdict(datastream.objective) if datastream.objective else None,
        "metadata": dict(datastream.metadata),
        "pauses": {topic: _pause_document(pause) for topic, pause in datastream.pauses.items()},
    }


def from_document(document: dict[str, Any]) -> Datastream:
    """The inverse of `to_document`.

    Raises InvalidRequest, KeyError, TypeError or ValueError on a damaged document.
    """
    objective = document.get("objective")
    return Datastream(
        name=DatastreamName(document["name"]),
        source=ClusterRef(document["source"]),
        selection=TopicSelection(**document["topics"]),
        destination=ClusterRef(document["destination"]),
        naming=TopicNaming(document["naming"]),
        status=DatastreamStatus(document["status"]),
        start=StartPosition(document["start"]),
        limits=TaskLimits(**document["limits"]),
        objective=LatencyObjective(**objective) if objective else None,
        metadata=document["metadata"],
        pauses={topic: _pause(one) for topic, one in document.get("pauses", {}).items()},
    )


def _pause_document(pause: Pause) -> dict[str, Any]:
    numbers = "*" if pause.numbers is None else znodes.encode_ranges(pause.numbers)
    return {"partitions": numbers, "reason": pause.reason, "since_ms": pause.since_ms}


def _pause(document: dict[str, Any]) -> Pause:
    text = document["partitions"]
    numbers = None if text == "*" else frozenset(znodes.decode_ranges(text))
    return Pause(numbers, document["reason"], document["since_ms"])


@dataclass(frozen=True, slots=True)
class StoredDatastream:
    """A definition and the znode version it was read at."""

    datastream: Datastream
    version: int


class DefinitionStore:
    """Definitions in ZooKeeper; they outlive every instance."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def names(self, watch: Watch | None = None) -> tuple[DatastreamName, ...]:
        """All names, sorted; the watch fires when one is added or removed."""
        children = self._nodes.children(znodes.DATASTREAMS, watch)
        return tuple(DatastreamName(name) for name in sorted(znodes.name_of(node) for node in children))

    def get(self, name: DatastreamName, watch: Watch | None = None) -> StoredDatastream:
        """Raises NotFound, CorruptData."""
        path = znodes.child(znodes.DATASTREAMS, name)
        try:
            node = self._nodes.read(path, watch)
        except NotFound as error:
            raise NotFound(f"there is no datastream {name}") from error
        document = znodes.decode(node.data, path)
        try:
            return StoredDatastream(from_document(document), node.version)
        except (InvalidRequest, KeyError, TypeError, ValueError) as error:
            raise CorruptData(
                f"znode {path} holds no definition ({type(error).__name__}: {error})",
                advice="restore or delete it",
            ) from error

    def all(self, watch: Watch | None = None) -> tuple[StoredDatastream, ...]:
        """Every definition, sorted by name; the watch fires when any of them changes."""
        stored = []
        for name in self.names(watch):
            try:
                stored.append(self.get(name, watch))
            except NotFound:
                continue  # deleted between the two reads
        return tuple(stored)

    def create(self, datastream: Datastream) -> None:
        """Raises AlreadyExists, and InvalidRequest when it does not fit into a znode."""
        path = znodes.child(znodes.DATASTREAMS, datastream.name)
        try:
            self._nodes.create(path, znodes.encode(to_document(datastream)))
        except AlreadyExists as error:
            raise AlreadyExists(
                f"there is a datastream {datastream.name} already",
                advice="choose another name or delete it first",
            ) from error

    def replace(self, stored: StoredDatastream, datastream: Datastream) -> None:
        """Compare and set. Raises VersionConflict, NotFound."""
        path = znodes.child(znodes.DATASTREAMS, datastream.name)
        self._nodes.write(path, znodes.encode(to_document(datastream)), stored.version)

    def remove(self, name: DatastreamName) -> None:
        """Remove a definition for good."""
        self._nodes.delete(znodes.child(znodes.DATASTREAMS, name))


class DefinitionCache:
    """All definitions, of which only those are read again that have changed. Used by one thread.

    `wake` is called, from any thread, when something has changed.
    """

    def __init__(self, store: DefinitionStore, wake: Watch) -> None:
        self._store = store
        self._wake = wake
        self._known: dict[DatastreamName, StoredDatastream] = {}
        self._changed: queue.SimpleQueue[DatastreamName | None] = queue.SimpleQueue()
        self._stale: set[DatastreamName] = set()
        self._are_names_stale = True

    def all(self) -> tuple[StoredDatastream, ...]:
        """Sorted by name. Raises what reading raises; what was not read then is read by the next call."""
        self._take_in_changes()
        if self._are_names_stale:
            names = self._store.names(_Changed(self._changed, None, self._wake))
            self._stale.update(name for name in names if name not in self._known)
            self._known = {name: self._known[name] for name in names if name in self._known}
            self._are_names_stale = False
        for name in sorted(self._stale):
            try:
                self._known[name] = self._store.get(name, _Changed(self._changed, name, self._wake))
            except NotFound:
                self._known.pop(name, None)  # deleted since its name was listed
            self._stale.discard(name)
        return tuple(self._known[name] for name in sorted(self._known))

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
