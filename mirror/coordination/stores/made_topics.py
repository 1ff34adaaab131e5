"""Which destination topics the service has made for a group of datastreams: those it may change later.

The record outlives a datastream, so that one that is created again under its name goes on as before.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound, VersionConflict
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.ports import NodeStore

Made = Mapping[ClusterRef, frozenset[str]]
"""Topic names by cluster."""


class MadeTopics:
    """Records in ZooKeeper, one for each group. Thread-safe."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def of(self, group: GroupName) -> Made | None:
        """None: nothing has been recorded of the group yet. Raises CorruptData."""
        return self._read(group)[0]

    def add(self, group: GroupName, cluster: ClusterRef, topics: Iterable[str]) -> None:
        """Record more; none at all is a record too. Raises VersionConflict, InvalidRequest when it is too
        large for a znode."""
        made, version = self._read(group)
        known = dict(made or {})
        known[cluster] = known.get(cluster, frozenset()) | frozenset(topics)
        if made is not None and known == made:
            return
        chunks = znodes.encode_chunks({name: sorted(names) for name, names in sorted(known.items())})
        if len(chunks) > 1:
            raise InvalidRequest(
                f"the record of topics made for {group} does not fit into a znode",
                advice="share its topics out among several datastreams",
            )
        path = znodes.short_child(znodes.MADE, group)
        if version is not None:
            self._nodes.write(path, chunks[0], version)
            return
        try:
            self._nodes.create(path, chunks[0])
        except AlreadyExists as error:
            raise VersionConflict(f"somebody else wrote {path}") from error

    def _read(self, group: GroupName) -> tuple[Made | None, int | None]:
        path = znodes.short_child(znodes.MADE, group)
        try:
            node = self._nodes.read(path)
        except NotFound:
            return None, None
        try:
            document = znodes.decode_chunks([node.data], path)
            return {ClusterRef(name): frozenset(names) for name, names in document.items()}, node.version
        except (TypeError, ValueError, zlib.error) as error:
            raise CorruptData(f"znode {path} holds no record of topics", advice="delete it") from error
