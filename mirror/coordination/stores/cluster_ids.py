"""What clusters call themselves, by the names that definitions give them. Kept, so that one cluster under
two names is known for what it is also while it does not answer.
"""

from __future__ import annotations

from contextlib import suppress

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, NotFound, VersionConflict
from mirror.model.identifiers import ClusterRef
from mirror.ports import NodeStore


class ClusterIds:
    """Ids in ZooKeeper. Thread-safe; every instance may write what it has learnt of a cluster."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes

    def get(self, cluster: ClusterRef) -> str | None:
        """None: nobody has ever learnt it."""
        try:
            node = self._nodes.read(znodes.short_child(znodes.CLUSTERS, cluster))
        except NotFound:
            return None
        return node.data.decode(errors="replace")

    def put(self, cluster: ClusterRef, identity: str) -> None:
        """Keep what the cluster calls itself now. Of two that write at once one is enough."""
        path, data = znodes.short_child(znodes.CLUSTERS, cluster), identity.encode()
        with suppress(AlreadyExists, VersionConflict):
            try:
                node = self._nodes.read(path)
            except NotFound:
                self._nodes.create(path, data)
            else:
                if node.data != data:
                    self._nodes.write(path, data, node.version)
