"""Datastream definitions as documents, and where they are kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mirror.coordination import znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound
from mirror.model.datastream import Datastream, DatastreamStatus, LatencyObjective, StartPosition
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
    )


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
