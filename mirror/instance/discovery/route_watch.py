"""Finds topics that must not be copied, from the known state of the clusters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mirror.bulkheads import Bulkhead
from mirror.coordination.routes.routes import Route, RouteJudge, RouteVerdict
from mirror.coordination.stores.cluster_ids import ClusterIds
from mirror.coordination.stores.problems import reason_of
from mirror.instance.discovery.preparation import Selected, Waits
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.model.datastreams.datastream import Datastream, DatastreamStatus
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.plan import Plan

Topics = Mapping[ClusterRef, Mapping[str, int]]
Written = Mapping[GroupName, Collection[str]]


def written_by(plan: Plan) -> dict[GroupName, frozenset[str]]:
    """Return the source topics that each group copies in a plan."""
    topics: dict[GroupName, set[str]] = {}
    for placement in plan.tasks:
        topics.setdefault(placement.group, set()).update(
            partition.topic for partition in placement.partitions
        )
    return {group: frozenset(names) for group, names in topics.items()}


def held_by(plan: Plan) -> dict[GroupName, dict[str, int]]:
    """Return the number of copied partitions by group and topic in a plan."""
    found: dict[GroupName, dict[str, int]] = {}
    for placement in plan.tasks:
        topics = found.setdefault(placement.group, {})
        for partition in placement.partitions:
            topics[partition.topic] = max(topics.get(partition.topic, 0), partition.partition + 1)
    return found


@dataclass(frozen=True)
class _VerdictInput:
    """Input of a check of routes. Topics and plan are compared by identity."""

    routes: tuple[Route, ...]
    topics: Topics
    plan: Plan

    def is_same(self, other: _VerdictInput) -> bool:
        return (
            self.plan is other.plan
            and self.topics.keys() == other.topics.keys()
            and all(counts is other.topics[cluster] for cluster, counts in self.topics.items())
            and self.routes == other.routes
        )


class RouteMap:
    """Routes of datastreams, with cluster ids. Not thread-safe.

    `reserved`: names of internal topics of Headrace, which must not be destinations.
    """

    def __init__(self, ids: ClusterIds, reserved: Collection[str]) -> None:
        self._ids = ids
        self._reserved = reserved
        self._known: dict[ClusterRef, str] = {}

    def note(self, identities: Mapping[ClusterRef, str]) -> None:
        """Store the ids of clusters."""
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
        """Return an object that finds the topics that must not be copied on these routes."""
        return RouteJudge(routes, self._reserved)


class RouteWatch:
    """Checks the routes of all datastreams. Not thread-safe.

    `reserved`: as in RouteMap.
    """

    def __init__(self, topic_discovery: TopicDiscovery, ids: ClusterIds, reserved: Collection[str]) -> None:
        self._topic_discovery = topic_discovery
        self._map = RouteMap(ids, reserved)
        self._last: tuple[_VerdictInput, RouteVerdict] | None = None

    def look(self, datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        """Find the topics that must not be copied, and exclude them. Accepts outdated responses."""
        clusters = clusters_of(
            datastream for datastream in datastreams if not self._topic_discovery.refusal(datastream)
        )
        self._learn(clusters)
        return self._apply(datastreams, plan, self._topic_discovery.topics(sorted(clusters)))

    def glance(self, datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        """Return the result of `look` from stored and cached data, without requests."""
        self._map.recall(clusters_of(datastreams))
        topics = self._topic_discovery.known_topics(sorted({datastream.source for datastream in datastreams}))
        return self._apply(datastreams, plan, topics)

    def _learn(self, clusters: Collection[ClusterRef]) -> None:
        """Request the ids of clusters that are due for a request, and store them."""
        self._map.note(self._topic_discovery.identities.of(sorted(clusters)))
        self._map.recall(clusters)

    def _apply(self, datastreams: Sequence[Datastream], plan: Plan, topics: Topics) -> RouteVerdict:
        look = _VerdictInput(tuple(self._map.routes(datastreams)), dict(topics), plan)
        if self._last is None or not self._last[0].is_same(look):
            self._topic_discovery.forget_all_but(datastreams)
            self._last = look, self._verdict(look)
        verdict = self._last[1]
        self._topic_discovery.leave_out(
            {name: frozenset(reasons) for name, reasons in verdict.left_out.items()},
            look.topics,
            verdict.waiting,
        )
        return verdict

    def _verdict(self, look: _VerdictInput) -> RouteVerdict:
        written, matching = written_by(look.plan), self._topic_discovery.matching
        selected: dict[DatastreamName, Collection[str]] = {}
        failed: dict[DatastreamName, str] = {}
        for route in look.routes:
            datastream = route.datastream
            if reason := self._topic_discovery.refusal(datastream):
                failed[datastream.name] = reason
                continue
            with Bulkhead(partial(_note_reason, failed, datastream.name)):
                known = datastream.source in look.topics
                selected[datastream.name] = (
                    matching.selected(datastream, look.topics) if known else copied_of(datastream, written)
                )
        good = [route for route in look.routes if route.datastream.name not in failed]
        verdict = self._map.judge(good).verdict(selected, written)
        waiting = self._waiting(good, selected, verdict, look)
        return replace(verdict, refused={**verdict.refused, **failed}, waiting=waiting)

    def _waiting(
        self,
        routes: Sequence[Route],
        selected: Mapping[DatastreamName, Collection[str]],
        verdict: RouteVerdict,
        look: _VerdictInput,
    ) -> Waits:
        """Return the topics that must not be copied yet. For a source that has not responded, the topics that
        are being copied are used."""
        if self._topic_discovery.postponed is None:
            return {}
        held, found = held_by(look.plan), list[Selected]()
        for datastream in (route.datastream for route in sorted(routes, key=lambda route: route.age)):
            if datastream.name not in verdict.refused:
                counts = look.topics.get(datastream.source, held.get(datastream.group, {}))
                topics = set(selected[datastream.name]) - verdict.left_out.get(datastream.name, {}).keys()
                found.append((datastream, {topic: counts[topic] for topic in topics if topic in counts}))
        return self._topic_discovery.postponed(found, held)


def counted(datastreams: Iterable[Datastream]) -> list[Datastream]:
    """Return the datastreams that are not being deleted. A paused datastream keeps its topics."""
    return [datastream for datastream in datastreams if datastream.status is not DatastreamStatus.DELETING]


def clusters_of(datastreams: Iterable[Datastream]) -> set[ClusterRef]:
    """Return the sources and destinations of all datastreams."""
    return {cluster for datastream in datastreams for cluster in (datastream.source, datastream.destination)}


def copied_of(datastream: Datastream, written: Written) -> tuple[str, ...]:
    """Return the copied topics of the group that this datastream selects."""
    return datastream.selection.choose(written.get(datastream.group, ()))


def _note_reason(failed: dict[DatastreamName, str], name: DatastreamName, error: Exception) -> None:
    failed[name] = reason_of(error)
