"""Stores the initial partitions of datastreams in the coordination store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from mirror.coordination.datastream_records.first_partitions import (
    FirstPartitions,
    begins_at_end,
    first_partitions,
    since_of,
)
from mirror.coordination.stores import node_codec, znodes
from mirror.errors import DamagedState, InvalidRequest, NotFound
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import damage_of
from mirror.model.topics import TopicSelection
from mirror.ports import NodeStore

_log = get_logger(__name__)
_DAMAGES: Final = (DamagedState, InvalidRequest, KeyError, TypeError, ValueError)


class FirstPartitionsStore:
    """Stores the initial partitions of each datastream that starts at `latest`.

    Thread-safe; only the leader writes.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._recorded: dict[DatastreamName, tuple[int, TopicSelection]] = {}

    def of(self, datastream: Datastream) -> FirstPartitions | None:
        """Return the initial partitions of a datastream, or None if none are stored or needed.

        An unreadable node counts as empty, because copying too many records is better than skipping some.
        """
        return self._read(datastream)[0] if begins_at_end(datastream) else None

    def record(self, datastream: Datastream, topics: Mapping[str, int]) -> None:
        """Store the initial partitions of a datastream before it is planned. Stored partitions remain
        unchanged. Raises VersionConflict; InvalidRequest if they do not fit into a node."""
        state = since_of(datastream), datastream.selection
        if self._recorded.get(datastream.name) == state:
            return
        self._write(datastream, topics)
        self._recorded[datastream.name] = state

    def invalidate(self) -> None:
        """Drop the cached initial partitions, because another leader may have written."""
        self._recorded = {}

    def _write(self, datastream: Datastream, topics: Mapping[str, int]) -> None:
        known, version = self._read(datastream)
        found = first_partitions(datastream, topics, known)
        if found == known:
            return
        chunks = node_codec.encode_chunks(asdict(found) | {"selection": found.selection.document})
        if len(chunks) > 1:
            raise InvalidRequest(
                f"the list of partitions of {datastream.name} does not fit into a node",
                advice="distribute its topics among several datastreams",
            )
        znodes.put_over(self._nodes, _path(datastream.name), chunks[0], version)

    def forget(self, name: DatastreamName) -> str:
        """Drop a deleted datastream from the cache. Return the path of its initial partitions, which the
        caller deletes with the definition, because a new datastream may have the same name."""
        self._recorded.pop(name, None)
        return _path(name)

    def _read(self, datastream: Datastream) -> tuple[FirstPartitions | None, int | None]:
        path = _path(datastream.name)
        try:
            node = self._nodes.read(path)
        except NotFound:
            return None, None
        try:
            found = node_codec.decode_chunks([node.data], path)
            counts = {str(topic): int(count) for topic, count in found["counts"].items()}
            selection = TopicSelection(**found["selection"])
            return FirstPartitions(int(found["since_ms"]), selection, counts), node.version
        except _DAMAGES as error:
            _log.error("damaged record of initial partitions ignored", path=path, reason=damage_of(error))
            return FirstPartitions(since_of(datastream), datastream.selection, {}), node.version


def _path(name: DatastreamName) -> str:
    return znodes.short_child(znodes.BEGINNINGS, name)
