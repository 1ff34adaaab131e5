"""Determines the routes of datastreams, and the topics that they select or copy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from mirror.coordination.routes.routes import Route, RouteJudge
from mirror.coordination.stores.cluster_ids import ClusterIds
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.plan import Plan

Topics = Mapping[ClusterRef, Mapping[str, int]]
Written = Mapping[GroupName, Collection[str]]


class RouteMap:
    """Determines the routes of datastreams from the ids of their clusters. Not thread-safe.

    `reserved`: names of internal topics of Headrace, which must not be destinations.
    """

    def __init__(self, ids: ClusterIds, reserved: Collection[str]) -> None:
        self._ids = ids
        self._reserved = reserved
        self._known: dict[ClusterRef, str] = {}

    def note(self, identities: Mapping[ClusterRef, str]) -> None:
        """Store the ids that clusters have reported."""
        for cluster, identity in identities.items():
            if identity != self._known.get(cluster):
                self._ids.put(cluster, identity)
                self._known[cluster] = identity

    def recall(self, clusters: Collection[ClusterRef]) -> None:
        """Load the stored ids of clusters whose ids are not known in memory."""
        for cluster in set(clusters) - self._known.keys():
            stored = self._ids.get(cluster)
            if stored is not None:
                self._known[cluster] = stored

    def identities(self, clusters: Collection[ClusterRef]) -> Mapping[ClusterRef, str]:
        """Return the known cluster ids."""
        return {cluster: self._known[cluster] for cluster in clusters if cluster in self._known}

    def routes(self, datastreams: Sequence[Datastream]) -> list[Route]:
        """Return the routes of datastreams. A cluster with an unknown id is identified by its name."""
        known = self._known
        return [
            Route(
                datastream,
                known.get(datastream.source, datastream.source),
                known.get(datastream.destination, datastream.destination),
            )
            for datastream in counted(datastreams)
        ]

    def selected(self, datastream: Datastream, topics: Iterable[str]) -> Collection[str]:
        """Return the topics that a datastream would mirror. Includes internal topics of Headrace only if the
        datastream names them."""
        return datastream.selection.choose(topics, self._reserved)

    def judge(self, routes: Sequence[Route]) -> RouteJudge:
        """Return an object that decides what must not be copied on the given routes."""
        return RouteJudge(routes, self._reserved)


def written_by(plan: Plan) -> dict[GroupName, frozenset[str]]:
    """Map each group to the source topics that it copies according to the plan."""
    topics: dict[GroupName, set[str]] = {}
    for placement in plan.tasks:
        topics.setdefault(placement.group, set()).update(
            partition.topic for partition in placement.partitions
        )
    return {group: frozenset(names) for group, names in topics.items()}


def counted(datastreams: Iterable[Datastream]) -> list[Datastream]:
    """Return the datastreams that are not being deleted. A paused datastream keeps its topics."""
    return [datastream for datastream in datastreams if datastream.status is not DatastreamStatus.DELETING]


def copied_of(datastream: Datastream, written: Written) -> tuple[str, ...]:
    """Return those topics copied by the datastream's group that this datastream selects."""
    return datastream.selection.choose(written.get(datastream.group, ()))
