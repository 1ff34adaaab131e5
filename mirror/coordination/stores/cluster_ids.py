"""What clusters call themselves, by the names that definitions give them. Kept, so that one cluster under
two names is known for what it is also while it does not answer.
"""

from __future__ import annotations

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


class WrittenClusters:
    """Ids of the clusters that the service writes to, by name, as of the first write or the last acceptance.
    Thread-safe."""

    def __init__(self, nodes: NodeStore) -> None:
        self._ids = ClusterIds(nodes, znodes.WRITTEN)

    def get(self, cluster: ClusterRef) -> str:
        """Return the id, empty before the first write."""
        return self._ids.get(cluster) or ""

    def require(self, cluster: ClusterRef, identity: str) -> None:
        """Store the id before the first write. Raises UnexpectedCluster where another one is stored."""
        expected = self.get(cluster)
        if expected and identity and identity != expected:
            raise UnexpectedCluster.at(cluster, expected, identity)
        if identity and not expected:
            self.accept(cluster, identity)

    def accept(self, cluster: ClusterRef, identity: str) -> None:
        """Write to the cluster with this id from now on."""
        self._ids.put(cluster, identity)
