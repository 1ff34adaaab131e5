"""Checks before a restart: no records may be duplicated, and cluster ids must be accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.errors import IllegalTransition, UnexpectedCluster, Unreachable
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.nodes import NodeChange
from mirror.model.topics import TopicPartition
from mirror.ports import TopicAdmin
from mirror.wording import counted

_T = TypeVar("_T")
_MOST_NAMED = 5


class AskAdmin(Protocol):
    """Function that runs a request with the admin client of a cluster."""

    def __call__(self, cluster: ClusterRef, question: Callable[[TopicAdmin], _T], /) -> _T:
        """Send a request to a cluster, and return its result. Raises Unreachable and NotAuthorized."""
        ...


class RestartClusters:
    """Checks both clusters of a datastream before a restart. Thread-safe."""

    def __init__(self, ask: AskAdmin, bound: BoundClusters) -> None:
        self._ask = ask
        self._bound = bound

    def require_empty(self, datastream: Datastream) -> None:
        """Check that destination topics contain no records that a restart may duplicate. Raises
        IllegalTransition.

        Raises Unreachable and NotAuthorized.
        """
        held = {place: count for place, count in self._held(datastream).items() if count}
        if held:
            named = ", ".join(f"{place} ({count})" for place, count in sorted(held.items())[:_MOST_NAMED])
            more = ", …" if len(held) > _MOST_NAMED else ""
            raise IllegalTransition(
                f"{datastream.destination} has {counted(sum(held.values()), 'offset')} that a restart may"
                f" duplicate: {named}{more}",
                advice="delete these records or topics, or allow duplicates (--allow-duplicates)",
            )

    def _held(self, datastream: Datastream) -> Mapping[TopicPartition, int]:
        counts = self._ask(datastream.source, lambda admin: admin.list_topics())
        present = self._ask(datastream.destination, lambda admin: admin.list_topics())
        topics = {datastream.naming.destination(topic) for topic in datastream.selection.choose(counts)}
        places = [
            TopicPartition(topic, number)
            for topic in sorted(topics & present.keys())
            for number in range(present[topic])
        ]
        found = self._ask(datastream.destination, lambda admin: admin.positions("", places))
        return {place: bounds.end - bounds.first for place, bounds in found.items()}

    def changed(self, datastream: Datastream) -> Mapping[ClusterRef, str]:
        """Return the current id of each cluster whose id differs from the bound id. Raises Unreachable.

        Omits a source that does not respond.
        """
        found = {datastream.destination: self._identity(datastream.destination)}
        with suppress(Unreachable):
            found[datastream.source] = self._identity(datastream.source)
        return {
            cluster: identity for cluster, identity in found.items() if identity != self._bound.get(cluster)
        }

    def _identity(self, cluster: ClusterRef) -> str:
        identity = self._ask(cluster, lambda admin: admin.cluster_id())
        if not identity:
            raise UnexpectedCluster.at(cluster, self._bound.get(cluster), identity)
        return identity

    def acceptance(self, identities: Mapping[ClusterRef, str]) -> tuple[NodeChange, ...]:
        """Return the node changes that accept the given cluster ids, so that lanes use these clusters."""
        return self._bound.acceptance(identities)
