"""What clusters call themselves, by the names that definitions give them. Kept, so that one cluster under
two names is known for what it is also while it does not answer.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from contextlib import suppress

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, NotFound, UnexpectedCluster, VersionConflict
from mirror.model.identifiers import ClusterRef
from mirror.ports import NodeStore


class ClusterIds:
    """Ids in ZooKeeper. Thread-safe; every instance may write what it has learnt of a cluster."""

    def __init__(self, nodes: NodeStore, parent: str = znodes.CLUSTERS) -> None:
        self._nodes = nodes
        self._parent = parent

    def get(self, cluster: ClusterRef) -> str | None:
        """None: nobody has ever learnt it."""
        try:
            node = self._nodes.read(znodes.short_child(self._parent, cluster))
        except NotFound:
            return None
        return node.data.decode(errors="replace")

    def put(self, cluster: ClusterRef, identity: str) -> None:
        """Keep what the cluster calls itself now. Of two that write at once one is enough."""
        path, data = znodes.short_child(self._parent, cluster), identity.encode()
        with suppress(AlreadyExists, VersionConflict):
            try:
                node = self._nodes.read(path)
            except NotFound:
                self._nodes.create(path, data)
            else:
                if node.data != data:
                    self._nodes.write(path, data, node.version)


class BoundClusters:
    """Ids of the only clusters that the service reads and writes under their names: those that were seen
    first, or accepted last. Thread-safe."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._ids = ClusterIds(nodes, znodes.BOUND)

    def get(self, cluster: ClusterRef) -> str:
        """Return the id, empty before the first use."""
        return self._ids.get(cluster) or ""

    def bind(self, cluster: ClusterRef, identity: str) -> str:
        """Return the bound id; bind this one where there is none."""
        known = self.get(cluster)
        if known or not identity:
            return known
        with suppress(AlreadyExists):
            self._nodes.create(znodes.short_child(znodes.BOUND, cluster), identity.encode())
        return self.get(cluster)

    def require(self, cluster: ClusterRef, identity: str) -> None:
        """Bind the id before the first use. Raises UnexpectedCluster where another one is bound."""
        expected = self.bind(cluster, identity)
        if identity != expected:
            raise UnexpectedCluster.at(cluster, expected, identity)

    def accept(self, cluster: ClusterRef, identity: str) -> None:
        """Read and write the cluster with this id from now on."""
        self._ids.put(cluster, identity)


class KnownClusters:
    """Which names may be of one cluster, by every id that is known of each: the bound one, and the one that
    the cluster reported last. Thread-safe."""

    def __init__(self, nodes: NodeStore) -> None:
        self.bound = BoundClusters(nodes)
        self._reported = ClusterIds(nodes)

    def same_as(
        self, cluster: ClusterRef, aliases: Collection[ClusterRef], identity: str = ""
    ) -> Collection[ClusterRef]:
        """Return the aliases that may be this cluster: all but those whose ids are known to differ.
        `identity`: a further id of the cluster."""
        mine = self._ids(cluster) | ({identity} - {""})
        return [one for one in aliases if not mine or not (theirs := self._ids(one)) or mine & theirs]

    def _ids(self, cluster: ClusterRef) -> Set[str]:
        return {self.bound.get(cluster), self._reported.get(cluster) or ""} - {""}
