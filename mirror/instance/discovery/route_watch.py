"""Determines which topics must not be copied, from known topics and plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mirror.bulkheads import Bulkhead
from mirror.coordination.routes.routes import Route, RouteVerdict
from mirror.coordination.stores.cluster_ids import ClusterIds
from mirror.instance.discovery.preparation import Selected, Waits
from mirror.instance.discovery.route_map import RouteMap, Topics, copied_of, written_by
from mirror.instance.discovery.topic_discovery import TopicDiscovery
from mirror.model.datastreams.datastream import Datastream, clusters_of
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.plan import Plan
from mirror.model.reasons import reason_of


def held_by(plan: Plan) -> dict[GroupName, dict[str, int]]:
    """Map each group and topic to its number of copied partitions in the plan."""
    found: dict[GroupName, dict[str, int]] = {}
    for placement in plan.tasks:
        topics = found.setdefault(placement.group, {})
        for partition in placement.partitions:
            topics[partition.topic] = max(topics.get(partition.topic, 0), partition.partition + 1)
    return found


@dataclass(frozen=True)
class _VerdictInput:
    """Inputs of a check of all routes. Topics and plan are compared by identity."""

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


class RouteWatch:
    """Checks which topics the datastreams must not copy. Not thread-safe.

    `reserved`: as in RouteMap.
    """

    def __init__(self, topic_discovery: TopicDiscovery, ids: ClusterIds, reserved: Collection[str]) -> None:
        self._topic_discovery = topic_discovery
        self._map = RouteMap(ids, reserved)
        self._last: tuple[_VerdictInput, RouteVerdict] | None = None

    def check(self, datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        """Determine the topics that datastreams must not copy, and exclude them. Uses outdated topics if
        necessary."""
        clusters = clusters_of(
            datastream for datastream in datastreams if not self._topic_discovery.refusal(datastream)
        )
        self._learn(clusters)
        return self._apply(datastreams, plan, self._topic_discovery.topics(sorted(clusters)))

    def check_cached(self, datastreams: Sequence[Datastream], plan: Plan) -> RouteVerdict:
        """Determine the same as `check`, but from stored and cached data, without requests."""
        self._map.recall(clusters_of(datastreams))
        topics = self._topic_discovery.known_topics(sorted({datastream.source for datastream in datastreams}))
        return self._apply(datastreams, plan, topics)

    def _learn(self, clusters: Collection[ClusterRef]) -> None:
        """Request and store the ids of clusters whose ids are unknown or due for a check."""
        self._map.note(self._topic_discovery.identities.of(sorted(clusters)))
        self._map.recall(clusters)

    def _apply(self, datastreams: Sequence[Datastream], plan: Plan, topics: Topics) -> RouteVerdict:
        inputs = _VerdictInput(tuple(self._map.routes(datastreams)), dict(topics), plan)
        if self._last is None or not self._last[0].is_same(inputs):
            self._topic_discovery.forget_all_but(datastreams)
            self._last = inputs, self._verdict(inputs)
        verdict = self._last[1]
        self._topic_discovery.leave_out(
            {name: frozenset(reasons) for name, reasons in verdict.left_out.items()},
            inputs.topics,
            verdict.waiting,
        )
        return verdict

    def _verdict(self, inputs: _VerdictInput) -> RouteVerdict:
        written, matching = written_by(inputs.plan), self._topic_discovery.matching
        selected: dict[DatastreamName, Collection[str]] = {}
        failed: dict[DatastreamName, str] = {}
        for route in inputs.routes:
            datastream = route.datastream
            if reason := self._topic_discovery.refusal(datastream):
                failed[datastream.name] = reason
                continue
            with Bulkhead(partial(_note_reason, failed, datastream.name)):
                known = datastream.source in inputs.topics
                selected[datastream.name] = (
                    matching.selected(datastream, inputs.topics) if known else copied_of(datastream, written)
                )
        good = [route for route in inputs.routes if route.datastream.name not in failed]
        verdict = self._map.judge(good).verdict(selected, written)
        waiting = self._waiting(good, selected, verdict, inputs)
        return replace(verdict, refused={**verdict.refused, **failed}, waiting=waiting)

    def _waiting(
        self,
        routes: Sequence[Route],
        selected: Mapping[DatastreamName, Collection[str]],
        verdict: RouteVerdict,
        inputs: _VerdictInput,
    ) -> Waits:
        """Return the topics that datastreams must not copy yet. If a source has not responded, only topics
        that are being copied are considered."""
        if self._topic_discovery.postponed is None:
            return {}
        held, found = held_by(inputs.plan), list[Selected]()
        for datastream in (route.datastream for route in sorted(routes, key=lambda route: route.age)):
            if datastream.name not in verdict.refused:
                counts = inputs.topics.get(datastream.source, held.get(datastream.group, {}))
                topics = set(selected[datastream.name]) - verdict.left_out.get(datastream.name, {}).keys()
                found.append((datastream, {topic: counts[topic] for topic in topics if topic in counts}))
        return self._topic_discovery.postponed(found, held)


def _note_reason(failed: dict[DatastreamName, str], name: DatastreamName, error: Exception) -> None:
    failed[name] = reason_of(error)
