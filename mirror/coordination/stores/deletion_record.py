"""Records of deleted datastreams.

A definition that is missing without such a record is lost. The transaction that removes a definition also
records its deletion, so a store that was restored from older data contains either the definition or the
record. Deletions are stored in `BUCKETS` nodes, each of which has only its latest deletions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import DamagedState, InvalidRequest
from mirror.loggers import get_logger
from mirror.model import bounds
from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.metadata import CREATED_MS
from mirror.model.identifiers import DatastreamName
from mirror.model.nodes import NewNode, Node, NodeChange, NodeWrite
from mirror.model.reasons import damage_of
from mirror.ports import NodeStore

BUCKETS: Final = 128
MOST_OF_BUCKET: Final = 100
_DAMAGES: Final = (DamagedState, InvalidRequest, KeyError, TypeError, ValueError)
_log = get_logger(__name__)


class Deletions:
    """Records of deleted datastreams in the coordination store. Thread-safe. A recreated datastream is newer
    than the record, and does not count as deleted."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def changes(self, name: DatastreamName, created_ms: int) -> tuple[NodeChange, ...]:
        """Return the changes that record the deletion of a datastream, for the transaction that deletes it.

        `created_ms`: upper bound of the creation time (epoch ms).
        """
        path = _path(name)
        node = self._nodes.read_present([path]).get(path)
        known = {**_read(path, node)}
        before = known.pop(name, 0)
        kept = [*known.items()][1 - MOST_OF_BUCKET :]
        data = node_codec.encode({"deleted": [*kept, (name, max(before, created_ms))]})
        return (NewNode(path, data),) if node is None else (NodeWrite(path, data, node.version),)

    def guard(self, datastream: Datastream) -> tuple[NodeChange, ...] | None:
        """Return node changes that make a transaction fail if the datastream is deleted concurrently.

        Returns None if the datastream was already deleted.
        """
        path = _path(datastream.name)
        node = self._nodes.read_present([path]).get(path)
        moment = _read(path, node).get(datastream.name)
        if moment is not None and moment >= created_ms_of(datastream):
            return None
        if node is None:
            return (NewNode(path, node_codec.encode({"deleted": []})),)
        return (NodeWrite(path, node.data, node.version),)

    def created_after(self, datastream: Datastream) -> Datastream:
        """Return the definition of a new datastream with a creation time after the recorded deletion of its
        name, because the clock of the instance that created the former datastream may have been ahead."""
        path = _path(datastream.name)
        moment = _read(path, self._nodes.read_present([path]).get(path)).get(datastream.name)
        if moment is None or created_ms_of(datastream) > moment or moment >= bounds.LARGEST_MS:
            return datastream
        return replace(datastream, metadata={**datastream.metadata, CREATED_MS: str(moment + 1)})

    def of(self, datastreams: Iterable[Datastream]) -> frozenset[DatastreamName]:
        """Return the names of the datastreams whose deletion is recorded."""
        wanted = {datastream.name: datastream for datastream in datastreams}
        paths = {name: _path(name) for name in wanted}
        present = self._nodes.read_present(sorted(set(paths.values()))) if wanted else {}
        known = {path: _read(path, node) for path, node in present.items()}
        return frozenset(
            name
            for name, definition in wanted.items()
            if (moment := known.get(paths[name], {}).get(name)) is not None
            and moment >= created_ms_of(definition)
        )


def created_ms_of(datastream: Datastream) -> int:
    """Return the creation time of a datastream; 0 if unknown."""
    return datastream.created_ms or 0


def _path(name: DatastreamName) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return f"{znodes.DELETED}/{int.from_bytes(digest[:4], 'big') % BUCKETS:03}"


def _read(path: str, node: Node | None) -> Mapping[DatastreamName, int]:
    """Map deleted datastreams to their creation times, oldest record first. A damaged node is ignored, so its
    datastreams may be reported as lost. An operator can drop lost datastreams."""
    if node is None:
        return {}
    try:
        document: dict[str, Any] = node_codec.decode(node.data, path)
        return {
            DatastreamName(name): bounds.integer("the time of a deletion", moment, 0, bounds.LARGEST_MS)
            for name, moment in document["deleted"]
        }
    except _DAMAGES as error:
        _log.error("damaged record of deleted datastreams ignored", path=path, reason=damage_of(error))
        return {}
