"""Stores the id of each cluster under the cluster name that definitions use.

With stored ids, Headrace recognises two names of one cluster even during an outage.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from contextlib import suppress
from itertools import chain

from mirror.coordination.stores import znodes
from mirror.errors import AlreadyExists, NotFound, UnexpectedCluster, VersionConflict
from mirror.model.identifiers import ClusterRef
from mirror.model.nodes import NodeChange
from mirror.ports import NodeStore


class ClusterIds:
    """Stores a cluster id for each cluster name. Thread-safe. Every instance may write the ids."""

    def __init__(self, nodes: NodeStore, parent: str = znodes.CLUSTERS) -> None:
        self._nodes = nodes
        self._parent = parent

    def get(self, cluster: ClusterRef) -> str | None:
        """Return the stored id of a cluster; None if there is none."""
        try:
            node = self._nodes.read(znodes.short_child(self._parent, cluster))
        except NotFound:
            return None
        return node.data.decode(errors="replace")

    def put(self, cluster: ClusterRef, identity: str) -> None:
        """Store the id that a cluster currently reports.

        If two instances write concurrently, one of the writes is sufficient.
        """
        with suppress(VersionConflict):
            znodes.put(self._nodes, znodes.short_child(self._parent, cluster), identity.encode())


class BoundClusters:
    """Stores bound cluster ids: the id first seen or last accepted under each cluster name. Thread-safe.
    Lanes use a cluster only if it has the bound id."""

    def __init__(self, nodes: NodeStore) -> None:
        self._nodes = nodes
        self._ids = ClusterIds(nodes, znodes.BOUND)

    def get(self, cluster: ClusterRef) -> str:
        """Return the bound id of a cluster, or an empty string before its first use."""
        return self._ids.get(cluster) or ""

    def bind(self, cluster: ClusterRef, identity: str) -> str:
        """Return the bound id of a cluster. If there is none, bind `identity`."""
        known = self.get(cluster)
        if known or not identity:
            return known
        with suppress(AlreadyExists):
            self._nodes.create(znodes.short_child(znodes.BOUND, cluster), identity.encode())
        return self.get(cluster)

    def require(self, cluster: ClusterRef, identity: str) -> None:
        """Bind an id to a cluster name. Raises UnexpectedCluster if a different id is already bound."""
        expected = self.bind(cluster, identity)
        if identity != expected:
            raise UnexpectedCluster.at(cluster, expected, identity)

    def acceptance(self, identities: Mapping[ClusterRef, str]) -> tuple[NodeChange, ...]:
        """Return the changes that bind clusters to other ids. They fail after a concurrent change."""
        wanted = {
            znodes.short_child(znodes.BOUND, cluster): identity.encode()
            for cluster, identity in identities.items()
        }
        return tuple(chain.from_iterable(znodes.replacements(self._nodes, wanted).values()))


class KnownClusters:
    """Detects cluster names that may refer to the same cluster. Thread-safe.

    Compares the bound id of each name with the id that its cluster last reported.
    """

    def __init__(self, nodes: NodeStore) -> None:
        self.bound = BoundClusters(nodes)
        self._reported = ClusterIds(nodes)

    def same_as(
        self, cluster: ClusterRef, aliases: Collection[ClusterRef], identity: str = ""
    ) -> Collection[ClusterRef]:
        """Return the aliases that may refer to the same cluster. Excludes aliases of clusters with another
        id. `identity`: an additional id of the cluster."""
        mine = self._ids(cluster) | ({identity} - {""})
        return [alias for alias in aliases if not mine or not (theirs := self._ids(alias)) or mine & theirs]

    def _ids(self, cluster: ClusterRef) -> Set[str]:
        return {self.bound.get(cluster), self._reported.get(cluster) or ""} - {""}
