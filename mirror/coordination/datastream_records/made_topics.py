"""Stores which destination topics each group of datastreams has created or adopted.

One record has the topics that Headrace has created for the group, another the existing topics that the group
has adopted. The record of created topics outlives the datastream, so that a new datastream with the same name
can use the topics. The record of adopted topics is deleted with the last datastream of the group, so that a
new datastream needs the permission again.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence

from mirror.coordination.stores import node_codec, znodes
from mirror.errors import AlreadyExists, CorruptData, InvalidRequest, NotFound, VersionConflict
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.nodes import NewNode, NodeChange, NodeWrite
from mirror.ports import NodeStore

Made = Mapping[ClusterRef, frozenset[str]]
"""Maps each cluster to topic names, as stored for one group."""


class MadeTopics:
    """Names of created or adopted destination topics in the coordination store, a node per group.
    Thread-safe.

    `parent`: parent node of the records.
    """

    def __init__(self, nodes: NodeStore, parent: str = znodes.MADE) -> None:
        self._nodes = nodes
        self._parent = parent

    def of(self, group: GroupName) -> Made | None:
        """Return the topics recorded for a group, or None. Raises CorruptData."""
        return self._read(group)[0]

    def add(self, group: GroupName, cluster: ClusterRef, topics: Iterable[str]) -> None:
        """Add topics to the record of a group, which is created even without topics. Raises VersionConflict;
        InvalidRequest if the record does not fit into a node."""
        self.apply(self.addition(group, cluster, topics))

    def apply(self, changes: Sequence[NodeChange]) -> None:
        """Add topics to the records of several groups in one transaction. Raises VersionConflict."""
        try:
            if changes:
                self._nodes.change_together(changes)
        except AlreadyExists as error:
            raise VersionConflict(f"{changes[0].path} was written concurrently; retry") from error

    def addition(
        self, group: GroupName, cluster: ClusterRef, topics: Iterable[str]
    ) -> tuple[NodeChange, ...]:
        """Return the changes that add topics to a record, as `add` would make them. Raises InvalidRequest."""
        made, version = self._read(group)
        known = dict(made or {})
        known[cluster] = known.get(cluster, frozenset()) | frozenset(topics)
        if made is not None and known == made:
            return ()
        chunks = node_codec.encode_chunks({name: sorted(names) for name, names in sorted(known.items())})
        if len(chunks) > 1:
            raise InvalidRequest(
                f"the list of topics of {group} does not fit into a node",
                advice="distribute its topics among several datastreams",
            )
        path = znodes.short_child(self._parent, group)
        if version is None:
            return (NewNode(path, chunks[0]),)
        return (NodeWrite(path, chunks[0], version),)

    def path_of(self, group: GroupName) -> str:
        """Return the path of a group's record. The caller removes it with the group's last definition."""
        return znodes.short_child(self._parent, group)

    def _read(self, group: GroupName) -> tuple[Made | None, int | None]:
        path = self.path_of(group)
        try:
            node = self._nodes.read(path)
        except NotFound:
            return None, None
        try:
            document = node_codec.decode_chunks([node.data], path)
            return {ClusterRef(name): frozenset(names) for name, names in document.items()}, node.version
        except (TypeError, ValueError, zlib.error) as error:
            raise CorruptData(f"node {path} does not contain a list of topics", advice="delete it") from error
