"""Which topics a datastream must not copy: what would return, what another one writes. Pure.

A topic of a cluster is a place. Each datastream leads from every place that it selects to the place that
its naming gives; the places that feed one another are followed backwards through the names alone, so that
the answer depends on the definitions and not on which topics exist by now. Three rules hold:

1. What may come from a cluster is never copied back to it: no loop, no ring, no name that grows for ever.
   Within one cluster a topic is therefore copied once, and its copy is not copied there again.
2. A place is written by one group of datastreams, unless all that write it share it on purpose.
3. A topic of Headrace's own is no destination.

Where two datastreams contradict each other, the one created later gives way, by name where both are of one
moment; of a shared destination the one that writes it already keeps it. A ring in which names change is cut
where a changed name would return, whichever is older.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Final

from mirror.coordination.matching import Waiting
from mirror.coordination.routing.index import SelectionIndex
from mirror.coordination.routing.mates import contradictions
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicNaming
from mirror.wording import counted, first_few

_NAMES_SHOWN: Final = 3

Reasons = Mapping[str, str]
"""Why a topic is left out, by topic."""


@dataclass(frozen=True, slots=True)
class Route:
    """A datastream between two clusters, each named by what the cluster calls itself, where that is known."""

    datastream: Datastream
    source: str
    destination: str

    @property
    def copies_onto_itself(self) -> bool:
        """Whether every topic would be its own destination."""
        return self.source == self.destination and self.datastream.naming.is_identity

    @property
    def age(self) -> tuple[bool, int, str]:
        """Sorts the older one first; one that does not say when it was created comes last."""
        created_ms = self.datastream.created_ms
        return (created_ms is None, created_ms or 0, self.datastream.name)


@dataclass
class _Place:
    """What is known of one topic name on all clusters. `origins`: by cluster, the clusters that its records
    may come from, each with the datastream that brings them. `reasons`: by datastream that must not copy
    the topic. `taken`: routes that copy it."""

    origins: dict[str, dict[str, DatastreamName]] = field(default_factory=dict)
    reasons: dict[DatastreamName, str] = field(default_factory=dict)
    taken: list[Route] = field(default_factory=list)


class Returns:
    """Finds the topics whose records would return to a cluster. Remembers what it has worked out. `routes`:
    those that a circle may go through, the older ones first."""

    def __init__(self, routes: Sequence[Route]) -> None:
        good = [one for one in routes if not one.copies_onto_itself]
        self._circular = circular(good)
        self.routes = [one for one in good if one.datastream.name in self._circular]
        self.routes.sort(key=lambda one: one.age)
        self._is_kept = any(one.datastream.naming.is_identity for one in self.routes)
        alike: dict[tuple[str, str, TopicNaming], list[Route]] = {}
        for one in self.routes:
            if not one.datastream.naming.is_identity:
                alike.setdefault((one.source, one.destination, one.datastream.naming), []).append(one)
        self._renaming = {way: _index(routes) for way, routes in alike.items()}
        self._places: dict[str, _Place] = {}

    @cached_property
    def selecting(self) -> SelectionIndex[Route]:
        """Its routes by the topics that they select."""
        return _index(self.routes)

    def reason(self, route: Route, topic: str) -> str | None:
        """Why a datastream must not copy a topic that it selects; None: it may."""
        if route.datastream.name not in self._circular:
            return None
        place = self._place(topic)
        through = place.origins.get(route.source, {}).get(route.destination)
        return place.reasons.get(route.datastream.name) or (through and _returning(route, through))

    def _place(self, topic: str) -> _Place:
        """Shorter names first: every naming but `*` makes them longer, so the chain ends."""
        if topic not in self._places:
            place = _Place()
            for (source, destination, naming), alike in self._renaming.items():
                before = naming.source(topic)
                if before is not None:
                    self._bring(source, destination, alike.matching(before), before, place)
            taking = self.selecting.matching(topic) if self._is_kept else []
            if any(one.datastream.naming.is_identity for one in taking):
                for route in taking:
                    self._take(route, place)
            self._places[topic] = place
        return self._places[topic]

    def _bring(
        self, source: str, destination: str, alike: Sequence[Route], before: str, place: _Place
    ) -> None:
        """What comes to a name from a shorter one, by the first of some routes that select it and differ in
        their expressions only."""
        for route in alike:
            # A chain of copies within a cluster may have been left by a definition that is gone.
            if source == destination or self.reason(route, before) is None:
                origins = place.origins.setdefault(destination, {})
                for cluster in (source, *self._place(before).origins.get(source, ())):
                    origins.setdefault(cluster, route.datastream.name)
                return

    def _take(self, route: Route, place: _Place) -> None:
        """Let a route copy the name, unless something would return by it or by an older route."""
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
                        f"datastream {older.datastream.name} is older and would copy it back"
                    )
                    return
            place.origins = after
        place.taken.append(route)


def _index(routes: Sequence[Route]) -> SelectionIndex[Route]:
    return SelectionIndex((one.datastream.selection, one) for one in routes)


def _returning(route: Route, through: DatastreamName) -> str:
    return (
        f"it may hold records of {route.datastream.destination}, from where datastream {through} copies, and "
        "they would return there"
    )


def _spread(place: _Place, route: Route) -> dict[str, dict[str, DatastreamName]]:
    """The origins once the route is taken too, which keeps the name."""
    origins = {cluster: dict(known) for cluster, known in place.origins.items()}
    keeping = [one for one in (*place.taken, route) if one.datastream.naming.is_identity]
    is_changing = True
    while is_changing:
        is_changing = False
        for one in keeping:
            known = origins.setdefault(one.destination, {})
            for cluster in (one.source, *origins.get(one.source, ())):
                if cluster not in known:
                    known[cluster] = one.datastream.name
                    is_changing = True
    return origins


def _reachable(routes: Sequence[Route]) -> dict[str, set[str]]:
    """By cluster, every cluster that records can get to from it, itself included."""
    clusters = {cluster for one in routes for cluster in (one.source, one.destination)}
    onward: dict[str, set[str]] = {cluster: set() for cluster in clusters}
    for one in routes:
        onward[one.source].add(one.destination)
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
class Verdict:
    """`refused`: datastreams that must not be mirrored at all, and why. `left_out`: by datastream, topics
    that it must not copy, and why. `remarks`: what is said of others that are copied all the same.
    `waiting`: by datastream, topics that it is not to copy yet, or not all of."""

    refused: Mapping[DatastreamName, str]
    left_out: Mapping[DatastreamName, Reasons]
    remarks: Mapping[DatastreamName, str] = field(default_factory=dict)
    waiting: Mapping[DatastreamName, Mapping[str, Waiting]] = field(default_factory=dict)

    def reasons(self, name: DatastreamName) -> Reasons:
        """Why a datastream does not copy all that it selects, by topic."""
        waits = {topic: one.reason for topic, one in self.waiting.get(name, {}).items()}
        return {**waits, **self.left_out.get(name, {})}


class Judge:
    """Finds out what of some datastreams must not be copied. `reserved`: names of Headrace's own topics."""

    def __init__(self, routes: Sequence[Route], reserved: Collection[str]) -> None:
        self._reserved = reserved
        older_first = sorted(routes, key=lambda route: route.age)
        self._refused = {one.datastream.name: _ONTO_ITSELF for one in older_first if one.copies_onto_itself}
        self._refused |= _strangers([one for one in older_first if one.datastream.name not in self._refused])
        self._good = [one for one in older_first if one.datastream.name not in self._refused]
        self._returns = Returns(self._good)

    def verdict(
        self, topics: Mapping[DatastreamName, Collection[str]], written: Mapping[GroupName, Collection[str]]
    ) -> Verdict:
        """`topics`: what each datastream selects of the topics that exist; `written`: source topics that a
        group copies as things are."""
        left_out: dict[DatastreamName, dict[str, str]] = {one.datastream.name: {} for one in self._good}
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
        remarks = contradictions([one.datastream for one in self._good])
        return Verdict(
            self._refused, {name: reasons for name, reasons in left_out.items() if reasons}, remarks
        )

    def foreseen(
        self, topics: Mapping[DatastreamName, Collection[str]]
    ) -> Mapping[DatastreamName, Collection[str]]:
        """What each datastream will select once the copies that it and the others may make are there. Copies
        that nothing can bring back are not followed."""
        around = self._returns.routes
        found = {name: set(chosen) for name, chosen in topics.items()}
        fresh = {one.datastream.name: set(topics.get(one.datastream.name, ())) for one in around}
        while any(fresh.values()):
            copies: dict[str, set[str]] = {}
            for route in around:
                naming = route.datastream.naming
                for topic in fresh[route.datastream.name]:
                    if self._returns.reason(route, topic) is None:
                        copies.setdefault(naming.destination(topic), set()).add(route.destination)
            fresh = {one.datastream.name: set() for one in around}
            for name, clusters in copies.items():
                for other in self._returns.selecting.matching(name):
                    known = found.setdefault(other.datastream.name, set())
                    if other.source in clusters and name not in known:
                        fresh[other.datastream.name].add(name)
            for datastream, more in fresh.items():
                found.setdefault(datastream, set()).update(more)
        return found


def circular(routes: Sequence[Route]) -> frozenset[DatastreamName]:
    """Datastreams whose destination leads back to their source; no other can close a circle."""
    reached = _reachable(routes)
    return frozenset(one.datastream.name for one in routes if one.source in reached[one.destination])


_ONTO_ITSELF: Final = (
    "it would copy topics onto themselves: its source and its destination are one cluster, and the topics"
    " keep their names"
)


def _strangers(routes: Sequence[Route]) -> dict[DatastreamName, str]:
    """Members of a group that do not copy as its oldest member does: lanes are named by group and partition,
    so that two sources would share their names. `routes`: the older ones first."""
    first: dict[GroupName, Route] = {}
    refused = {}
    for route in routes:
        known = first.setdefault(route.datastream.group, route)
        if _way(known) != _way(route):
            refused[route.datastream.name] = (
                f"it shares tasks with {known.datastream.name}, which copies {_way_in_words(known)}"
            )
    return refused


def _way(route: Route) -> tuple[str, str, str]:
    one = route.datastream
    return one.source, one.destination, one.naming.template


def _way_in_words(route: Route) -> str:
    source, destination, template = _way(route)
    return f"from {source} to {destination} as {template}"


def _doubles(
    routes: Sequence[Route],
    topics: Mapping[DatastreamName, Collection[str]],
    written: Mapping[GroupName, Collection[str]],
    left_out: Mapping[DatastreamName, Reasons],
) -> list[tuple[Route, str, str]]:
    """Topics whose destination another group writes. `routes`: the older ones first."""
    found = []
    concerned = [one for one in routes if topics.get(one.datastream.name)]
    concerned.sort(key=lambda one: one.destination)
    for _, together in groupby(concerned, lambda one: one.destination):
        here = list(together)
        if len({one.datastream.group for one in here}) < 2:
            continue
        writer: dict[str, Route] = {}
        for is_second_look in (False, True):
            for route in here:
                one = route.datastream
                running = written.get(one.group, ())
                for topic in sorted(topics.get(one.name, ())):
                    if topic in left_out[one.name] or (topic in running) is is_second_look:
                        continue
                    holder = writer.setdefault(one.naming.destination(topic), route)
                    reason = _double(holder.datastream, one)
                    if reason:
                        found.append((route, topic, reason))
    return found


def _double(holder: Datastream, one: Datastream) -> str:
    if holder.group == one.group or (holder.shares_destination and one.shares_destination):
        return ""
    return f"datastream {holder.name} writes its destination topic already"


def in_words(reasons: Reasons) -> str:
    """What is left out, in words: a few topics by name, each with its reason."""
    told = first_few([f"{topic}: {reasons[topic]}" for topic in sorted(reasons)], _NAMES_SHOWN, "; ")
    return f"{counted(len(reasons), 'topic is', 'topics are')} left out ({told})"
