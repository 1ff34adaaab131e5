"""Prevents loops and duplicate writers among datastreams. Pure.

A place is a topic on one cluster. A datastream copies from a place at its source to a place at its
destination. The check follows chains of places backwards by name, so the result depends only on definitions,
not on existing topics. Three rules apply:

1. Records are never copied back to a cluster that they may have come from. This rule prevents loops, and
   names that grow forever. Within one cluster a topic is therefore copied only once, and its copy is not
   copied again.
2. Only one group of datastreams writes a place, unless all of its writers share it explicitly.
3. Headrace's own topics are never destinations.

If two datastreams conflict, the newer datastream must not copy. If both were created at the same time, their
names decide. A datastream that already writes a destination topic keeps the topic. A loop through renamed
topics is cut where a renamed topic would return, regardless of age.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

from mirror.coordination.partition_selection import IncompleteTopic
from mirror.coordination.routes.index import SelectionIndex
from mirror.coordination.routes.mates import contradictions
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicNaming
from mirror.wording import counted, first_few

_NAMES_SHOWN: Final = 3

Reasons = Mapping[str, str]
"""Reason for each topic that must not be copied."""


@dataclass(frozen=True, slots=True)
class Route:
    """A datastream between two clusters, each identified by its cluster id if known."""

    datastream: Datastream
    source: str
    destination: str

    @property
    def copies_onto_itself(self) -> bool:
        """True if every topic would be copied onto itself."""
        return self.source == self.destination and self.datastream.naming.is_identity

    @property
    def age(self) -> tuple[bool, int, str]:
        """Sort key of a datastream by age, oldest first. Datastreams without a creation time come last."""
        created_ms = self.datastream.created_ms
        return (created_ms is None, created_ms or 0, self.datastream.name)


@dataclass
class _TopicNode:
    """Where the records of one topic name come from, on every cluster.

    `origins`: for each cluster, the clusters from which its records may come, each with the datastream that
    copies them. `reasons`: reason for each datastream that must not copy the topic. `taken`: routes that copy
    the topic name.
    """

    origins: dict[str, dict[str, DatastreamName]] = field(default_factory=dict)
    reasons: dict[DatastreamName, str] = field(default_factory=dict)
    taken: list[Route] = field(default_factory=list)


class ReturningTopics:
    """Finds topics whose records would return to a cluster from which they were copied. Caches the results.

    `routes`: routes that may be part of a loop, oldest first.
    """

    def __init__(self, routes: Sequence[Route]) -> None:
        good = [route for route in routes if not route.copies_onto_itself]
        self._circular = circular(good)
        self.routes = [route for route in good if route.datastream.name in self._circular]
        self.routes.sort(key=lambda route: route.age)
        self._is_kept = any(route.datastream.naming.is_identity for route in self.routes)
        alike: dict[tuple[str, str, TopicNaming], list[Route]] = {}
        for route in self.routes:
            if not route.datastream.naming.is_identity:
                alike.setdefault((route.source, route.destination, route.datastream.naming), []).append(route)
        self._renaming = {way: _index(routes) for way, routes in alike.items()}
        self._places: dict[str, _TopicNode] = {}

    @cached_property
    def selecting(self) -> SelectionIndex[Route]:
        """Index of the routes by the topics that they select."""
        return _index(self.routes)

    def reason(self, route: Route, topic: str) -> str | None:
        """Return why a datastream must not copy a topic that it selects, or None if it may."""
        if route.datastream.name not in self._circular:
            return None
        place = self._place(topic)
        through = place.origins.get(route.source, {}).get(route.destination)
        return place.reasons.get(route.datastream.name) or (through and _returning(route, through))

    def _place(self, topic: str) -> _TopicNode:
        """Return the origins of a topic name on every cluster.

        The recursion ends, because every destination name except `*` makes names longer.
        """
        if topic not in self._places:
            place = _TopicNode()
            for (source, destination, naming), alike in self._renaming.items():
                before = naming.source(topic)
                if before is not None:
                    self._bring(source, destination, alike.matching(before), before, place)
            taking = self.selecting.matching(topic) if self._is_kept else []
            if any(route.datastream.naming.is_identity for route in taking):
                for route in taking:
                    self._take(route, place)
            self._places[topic] = place
        return self._places[topic]

    def _bring(
        self, source: str, destination: str, alike: Sequence[Route], before: str, place: _TopicNode
    ) -> None:
        """Record that the first suitable route makes the topic name by renaming a shorter name.

        `alike`: equal routes that select the shorter name.
        """
        for route in alike:
            # A chain of copies within a cluster may remain from a deleted definition.
            if source == destination or self.reason(route, before) is None:
                origins = place.origins.setdefault(destination, {})
                for cluster in (source, *self._place(before).origins.get(source, ())):
                    origins.setdefault(cluster, route.datastream.name)
                return

    def _take(self, route: Route, place: _TopicNode) -> None:
        """Record that a route copies the topic name. If records would return, record the reason instead."""
        origins = place.origins.get(route.source, {})
        through = origins.get(route.destination)
        if through is not None:
            place.reasons[route.datastream.name] = _returning(route, through)
            return
        if route.datastream.naming.is_identity:
            after = _spread(place, route)
            for older in place.taken:
                if older.destination in after.get(older.source, ()):
                    place.reasons[route.datastream.name] = (
                        f"datastream {older.datastream.name} is older and would copy the topic back"
                    )
                    return
            place.origins = after
        place.taken.append(route)


def _index(routes: Sequence[Route]) -> SelectionIndex[Route]:
    return SelectionIndex((route.datastream.selection, route) for route in routes)


def _returning(route: Route, through: DatastreamName) -> str:
    return (
        f"the topic may contain records of {route.datastream.destination}, copied by datastream {through},"
        " which would return"
    )


def _spread(place: _TopicNode, route: Route) -> dict[str, dict[str, DatastreamName]]:
    """Return the origins of a topic name as they would be if `route` also copied it. Includes further copies
    under the same name."""
    origins = {cluster: dict(known) for cluster, known in place.origins.items()}
    keeping = [other for other in (*place.taken, route) if other.datastream.naming.is_identity]
    is_changing = True
    while is_changing:
        is_changing = False
        for kept_route in keeping:
            known = origins.setdefault(kept_route.destination, {})
            for cluster in (kept_route.source, *origins.get(kept_route.source, ())):
                if cluster not in known:
                    known[cluster] = kept_route.datastream.name
                    is_changing = True
    return origins


def _reachable(routes: Sequence[Route]) -> dict[str, set[str]]:
    """Map each cluster to the clusters that its records can reach, including itself."""
    clusters = {cluster for route in routes for cluster in (route.source, route.destination)}
    onward: dict[str, set[str]] = {cluster: set() for cluster in clusters}
    for route in routes:
        onward[route.source].add(route.destination)
    found = {}
    for cluster in clusters:
        reached, left = {cluster}, [cluster]
        while left:
            more = onward[left.pop()] - reached
            reached |= more
            left += more
        found[cluster] = reached
    return found


@dataclass(frozen=True)
class RouteVerdict:
    """Topics and datastreams that must not be copied, with the reasons.

    `refused`: reason for each datastream that must not be mirrored at all. `left_out`: topics that each
    datastream must not copy, with the reason. `remarks`: conflicts that do not prevent copying. `waiting`:
    topics of each datastream that are not yet copied completely.
    """

    refused: Mapping[DatastreamName, str]
    left_out: Mapping[DatastreamName, Reasons]
    remarks: Mapping[DatastreamName, str] = field(default_factory=dict)
    waiting: Mapping[DatastreamName, Mapping[str, IncompleteTopic]] = field(default_factory=dict)

    def reasons(self, name: DatastreamName) -> Reasons:
        """Map each topic that the datastream does not copy completely to the reason."""
        waits = {topic: wait.reason for topic, wait in self.waiting.get(name, {}).items()}
        return {**waits, **self.left_out.get(name, {})}


class RouteJudge:
    """Determines what each datastream must not copy.

    `reserved`: names of internal topics of Headrace.
    """

    def __init__(self, routes: Sequence[Route], reserved: Collection[str]) -> None:
        self._reserved = reserved
        older_first = sorted(routes, key=lambda route: route.age)
        self._refused = {
            route.datastream.name: _ONTO_ITSELF for route in older_first if route.copies_onto_itself
        }
        self._refused |= _strangers(
            [route for route in older_first if route.datastream.name not in self._refused]
        )
        self._good = [route for route in older_first if route.datastream.name not in self._refused]
        self._returns = ReturningTopics(self._good)

    def verdict(
        self, topics: Mapping[DatastreamName, Collection[str]], written: Mapping[GroupName, Collection[str]]
    ) -> RouteVerdict:
        """Determine what each datastream must not copy.

        `topics`: existing topics that each datastream selects. `written`: source topics that each group
        currently copies.
        """
        left_out: dict[DatastreamName, dict[str, str]] = {route.datastream.name: {} for route in self._good}
        for route in self._good:
            name, naming = route.datastream.name, route.datastream.naming
            for topic in topics.get(name, ()):
                reason = self._returns.reason(route, topic)
                if reason is None and naming.destination(topic) in self._reserved:
                    reason = f"{naming.destination(topic)} is one of Headrace's own topics"
                if reason is not None:
                    left_out[name][topic] = reason
        for route, topic, reason in _doubles(self._good, topics, written, left_out):
            left_out[route.datastream.name][topic] = reason
        remarks = contradictions([route.datastream for route in self._good])
        return RouteVerdict(
            self._refused, {name: reasons for name, reasons in left_out.items() if reasons}, remarks
        )

    def foreseen(
        self, topics: Mapping[DatastreamName, Collection[str]]
    ) -> Mapping[DatastreamName, Collection[str]]:
        """Return the topics that each datastream will select once all possible copies exist. Copies that
        cannot return are ignored."""
        around = self._returns.routes
        found = {name: set(chosen) for name, chosen in topics.items()}
        fresh = {route.datastream.name: set(topics.get(route.datastream.name, ())) for route in around}
        while any(fresh.values()):
            copies: dict[str, set[str]] = {}
            for route in around:
                naming = route.datastream.naming
                for topic in fresh[route.datastream.name]:
                    if self._returns.reason(route, topic) is None:
                        copies.setdefault(naming.destination(topic), set()).add(route.destination)
            fresh = {route.datastream.name: set() for route in around}
            for name, clusters in copies.items():
                for other in self._returns.selecting.matching(name):
                    known = found.setdefault(other.datastream.name, set())
                    if other.source in clusters and name not in known:
                        fresh[other.datastream.name].add(name)
            for datastream, more in fresh.items():
                found.setdefault(datastream, set()).update(more)
        return found


def circular(routes: Sequence[Route]) -> frozenset[DatastreamName]:
    """Return the datastreams whose records can return from the destination to the source."""
    reached = _reachable(routes)
    return frozenset(route.datastream.name for route in routes if route.source in reached[route.destination])


_ONTO_ITSELF: Final = (
    "topics would be copied onto themselves: source and destination are the same cluster, and topics keep"
    " their names"
)


def _strangers(routes: Sequence[Route]) -> dict[DatastreamName, str]:
    """Map each datastream that cannot share tasks with the oldest of its group to the reason.

    Lanes are identified by group and partition, so two sources would use the same lane names. `routes`:
    routes, oldest first.
    """
    first: dict[GroupName, Route] = {}
    refused = {}
    for route in routes:
        known = first.setdefault(route.datastream.group, route)
        if _way(known) != _way(route):
            refused[route.datastream.name] = (
                f"the datastream shares tasks with {known.datastream.name}, which copies"
                f" {_way_in_words(known)}"
            )
    return refused


def _way(route: Route) -> tuple[str, str, str]:
    datastream = route.datastream
    return datastream.source, datastream.destination, datastream.naming.template


def _way_in_words(route: Route) -> str:
    source, destination, template = _way(route)
    return f"from {source} to {destination} as {template}"


def _doubles(
    routes: Sequence[Route],
    topics: Mapping[DatastreamName, Collection[str]],
    written: Mapping[GroupName, Collection[str]],
    left_out: Mapping[DatastreamName, Reasons],
) -> list[tuple[Route, str, str]]:
    """Return the topics whose destination topic another group already writes, with datastream and reason.

    `routes`: oldest first.
    """
    found = []
    concerned = [route for route in routes if topics.get(route.datastream.name)]
    concerned.sort(key=lambda route: route.destination)
    for _, together in groupby(concerned, lambda route: route.destination):
        here = list(together)
        if len({route.datastream.group for route in here}) < 2:
            continue
        writer: dict[str, Route] = {}
        for is_second_look in (False, True):
            for route in here:
                datastream = route.datastream
                running = written.get(datastream.group, ())
                for topic in sorted(topics.get(datastream.name, ())):
                    if topic in left_out[datastream.name] or (topic in running) is is_second_look:
                        continue
                    holder = writer.setdefault(datastream.naming.destination(topic), route)
                    reason = _double(holder.datastream, datastream)
                    if reason:
                        found.append((route, topic, reason))
    return found


def _double(holder: Datastream, datastream: Datastream) -> str:
    if holder.group == datastream.group or (holder.shares_destination and datastream.shares_destination):
        return ""
    return f"datastream {holder.name} already writes its destination topic"


def in_words(reasons: Reasons) -> str:
    """Return a message that names some of the topics that are not copied, each with the reason."""
    topics = first_few([f"{topic}: {reasons[topic]}" for topic in sorted(reasons)], _NAMES_SHOWN, "; ")
    return f"{counted(len(reasons), 'topic is', 'topics are')} left out ({topics})"
