"""Definitions that the coordination store has lost but an instance still has in memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Final

from mirror.coordination.datastream_records.first_partitions import begins_at_end
from mirror.coordination.datastream_records.first_partitions_store import FirstPartitionsStore
from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.stores import node_codec, znodes
from mirror.coordination.stores.definition_document import from_document, to_document
from mirror.coordination.stores.definitions import StoredDatastream
from mirror.coordination.stores.deletion_record import Deletions, created_ms_of
from mirror.errors import AlreadyExists, DamagedState, InvalidRequest, NotFound, VersionConflict
from mirror.loggers import get_logger
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.nodes import NewNode, Node, NodeDeletion, NodeWrite
from mirror.model.reasons import damage_of
from mirror.ports import NodeStore, Watch

_ATTEMPTS: Final = 5
_log = get_logger(__name__)


class LostStore:
    """Stores the definitions of lost datastreams in the coordination store. Thread-safe.

    Every instance may publish and remove definitions.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._deletions = Deletions(nodes)

    def all(self, watch: Watch | None = None) -> tuple[StoredDatastream, ...]:
        """Return all lost definitions, sorted by name. Damaged definitions are logged and omitted.

        `watch`: fires when a definition is added or removed.
        """
        children = self._nodes.children(znodes.LOST, watch)
        present = (
            self._nodes.read_present([f"{znodes.LOST}/{child}" for child in children]) if children else {}
        )
        found = [_read(path, node) for path, node in present.items()]
        return tuple(
            sorted(
                (stored for stored in found if stored is not None), key=lambda stored: stored.datastream.name
            )
        )

    def get(self, name: DatastreamName) -> StoredDatastream:
        """Return the definition of one lost datastream. Raises NotFound."""
        try:
            found = _read(_path(name), self._nodes.read(_path(name)))
        except NotFound:
            found = None
        if found is None:
            raise NotFound(
                f"no lost datastream is named {shown(name)}", advice="list them with headrace datastream lost"
            )
        return found

    def publish(self, datastreams: Sequence[Datastream]) -> bool:
        """Store lost definitions that were not deleted. Return False if the caller must call again.

        Of two definitions with the same name, the one that was created later is kept. A definition that
        another instance drops at the same time is not stored.
        """
        return sum(self._publish(datastream) for datastream in datastreams) == len(datastreams)

    def _publish(self, lost: Datastream) -> bool:
        path, document = _path(lost.name), node_codec.encode(to_document(lost))
        for _ in range(_ATTEMPTS):
            guard = self._deletions.guard(lost)
            node = self._nodes.read_present([path]).get(path)
            before = None if node is None else _read(path, node)
            if guard is None or (before and created_ms_of(before.datastream) >= created_ms_of(lost)):
                return True
            change = NewNode(path, document) if node is None else NodeWrite(path, document, node.version)
            with suppress(AlreadyExists, NotFound, VersionConflict):  # another instance was faster
                self._nodes.change_together((change, *guard))
                return True
        return False

    def remove(self, name: DatastreamName) -> None:
        """Remove a definition that is no longer lost. Idempotent."""
        with suppress(NotFound):
            self._nodes.delete(_path(name))

    def forget(self, lost: StoredDatastream) -> None:
        """Drop a lost definition permanently. Raises NotFound, VersionConflict.

        Instances that still have the definition in memory then treat it as deleted.
        """
        datastream = lost.datastream
        for attempt in range(_ATTEMPTS):
            deletion = self._deletions.changes(datastream.name, created_ms_of(datastream))
            try:
                self._nodes.change_together((NodeDeletion(_path(datastream.name)), *deletion))
            except (AlreadyExists, VersionConflict):
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return


def _path(name: DatastreamName) -> str:
    return znodes.child(znodes.LOST, name)


def _read(path: str, node: Node) -> StoredDatastream | None:
    try:
        datastream = from_document(node_codec.decode(node.data, path))
    except (DamagedState, InvalidRequest) as error:
        _log.error("cannot read a lost definition", path=path, reason=damage_of(error))
        return None
    return StoredDatastream(datastream, node.version)


class RestoredRecords:
    """Writes the nodes that a restored datastream needs besides its definition."""

    def __init__(self, nodes: NodeStore) -> None:
        self._beginnings = FirstPartitionsStore(nodes)
        self._made, self._adopted = MadeTopics(nodes), MadeTopics(nodes, znodes.ADOPTED)

    def begin(self, datastream: Datastream) -> None:
        """Start all partitions without a checkpoint at their earliest record.

        A datastream that started at `latest` is restored likewise. The initial partitions are unknown, and
        copying too many records is better than skipping some.
        """
        if begins_at_end(datastream):
            self._beginnings.record(datastream, {})

    def claim(self, datastream: Datastream, topics: Collection[str]) -> None:
        """Add destination topics to the record of topics that the datastream's group writes.

        The topics count as created by Headrace, unless the datastream adopts topics. Raises VersionConflict,
        InvalidRequest.
        """
        record = self._made if datastream.adopts is False else self._adopted
        for attempt in range(_ATTEMPTS):
            try:
                record.add(datastream.group, datastream.destination, topics)
            except VersionConflict:  # the leader writes the record, too
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return
