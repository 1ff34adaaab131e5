"""Which destination topics are a group's of datastreams: those that the service has made for it, which it may
change later, and those that were there before and that it has adopted.

What was made outlives a datastream, so that one that is created again under its name goes on as before. What
was adopted ends with the last datastream of the group: a new one needs the right again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound, VersionConflict
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.ports import NodeStore

Made = Mapping[ClusterRef, frozenset[str]]
"""Topic names by cluster."""


class MadeTopics:
    """Records in ZooKeeper, one for each group, below `parent`. Thread-safe."""

    def __init__(self, nodes: NodeStore, parent: str = znodes.MADE) -> None:
        self._nodes = nodes
        self._parent = parent

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
                f"the record of topics of {group} does not fit into a znode",
                advice="share its topics out among several datastreams",
            )
        path = znodes.short_child(self._parent, group)
        if version is not None:
            self._nodes.write(path, chunks[0], version)
            return
        try:
            self._nodes.create(path, chunks[0])
        except AlreadyExists as error:
            raise VersionConflict(f"somebody else wrote {path}") from error

    def forget(self, group: GroupName) -> None:
        """Nothing is recorded of the group any more."""
        with suppress(NotFound):
            self._nodes.delete(znodes.short_child(self._parent, group))

    def _read(self, group: GroupName) -> tuple[Made | None, int | None]:
        path = znodes.short_child(self._parent, group)
        try:
            node = self._nodes.read(path)
        except NotFound:
            return None, None
        try:
            document = znodes.decode_chunks([node.data], path)
            return {ClusterRef(name): frozenset(names) for name, names in document.items()}, node.version
        except (TypeError, ValueError, zlib.error) as error:
            raise CorruptData(f"znode {path} holds no record of topics", advice="delete it") from error
