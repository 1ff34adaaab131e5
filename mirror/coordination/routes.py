"""Which topics a datastream must not copy: what would return, what another one writes. Pure.

A topic of a cluster is a place. Each datastream leads from every place that it selects to the place that
its naming gives; the places that feed one another are followed backwards through the names alone, so that
the answer depends on the definitions and not on which topics exist by now. Three rules hold:

1. What may come from a cluster is never copied back to it: no loop, no ring, no name that grows for ever.
   Within one cluster a topic is therefore copied once, and its copy is not copied there again.
2. A place is written by one group of datastreams, unless all that write it share it on purpose.
3. A topic of Headrace's own is no destination.

Where two datastreams contradict each other, the one created later gives way, by name where both are of one
moment; of a shared destination the one that writes it already keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from mirror.model.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName

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
    """Finds the topics whose records would return to a cluster. Remembers what it has worked out."""

    def __init__(self, routes: Sequence[Route]) -> None:
        good = [one for one in routes if not one.copies_onto_itself]
        self._circular = circular(good)
        self._routes = [
            one for one in sorted(good, key=lambda one: one.age) if one.datastream.name in self._circular
        ]
        self._keeping = [one for one in self._routes if one.datastream.naming.is_identity]
        self._renaming: dict[tuple[str, str, str], list[Route]] = {}
        for one in self._routes:
            if not one.datastream.naming.is_identity:
                alike = one.datastream.naming.template, one.source, one.destination
                self._renaming.setdefault(alike, []).append(one)
        self._places: dict[str, _Place] = {}

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
            for alike in self._renaming.values():
                self._bring(alike, topic, place)
            keeping = any(one.datastream.selection.matches(topic) for one in self._keeping)
            for route in self._routes if keeping else ():
                if route.datastream.selection.matches(topic):
                    self._take(route, place)
            self._places[topic] = place
        return self._places[topic]

    def _bring(self, alike: Sequence[Route], topic: str, place: _Place) -> None:
        """What comes to this name from a shorter one, by the first of some routes that differ in their
        expressions only."""
        source, destination = alike[0].source, alike[0].destination
        before = alike[0].datastream.naming.source(topic)
        if before is None:
            return
        for route in alike:
            # A chain of copies within a cluster may have been left by a definition that is gone.
            if route.datastream.selection.matches(before) and (
                source == destination or self.reason(route, before) is None
            ):
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
    that it must not copy, and why."""

    refused: Mapping[DatastreamName, str]
    left_out: Mapping[DatastreamName, Reasons]


def judge(
    routes: Sequence[Route],
    topics: Mapping[DatastreamName, Collection[str]],
    written: Mapping[GroupName, Collection[str]],
    reserved: Collection[str],
) -> Verdict:
    """What of these datastreams must not be copied. `topics`: what each selects of the topics that exist;
    `written`: source topics that a group copies as things are; `reserved`: names of Headrace's own topics.
    """
    refused = {one.datastream.name: _ONTO_ITSELF for one in routes if one.copies_onto_itself}
    refused |= _strangers([one for one in routes if one.datastream.name not in refused])
    good = sorted((one for one in routes if one.datastream.name not in refused), key=lambda route: route.age)
    returns = Returns(good)
    left_out: dict[DatastreamName, dict[str, str]] = {one.datastream.name: {} for one in good}
    for route in good:
        name, naming = route.datastream.name, route.datastream.naming
        for topic in topics.get(name, ()):
            reason = returns.reason(route, topic)
            if reason is None and naming.destination(topic) in reserved:
                reason = f"{naming.destination(topic)} is one of Headrace's own topics"
            if reason is not None:
                left_out[name][topic] = reason
    for route, topic, reason in _doubles(good, topics, written, left_out):
        left_out[route.datastream.name][topic] = reason
    return Verdict(refused, {name: reasons for name, reasons in left_out.items() if reasons})


def circular(routes: Sequence[Route]) -> frozenset[DatastreamName]:
    """Datastreams whose destination leads back to their source; no other can close a circle."""
    reached = _reachable(routes)
    return frozenset(one.datastream.name for one in routes if one.source in reached[one.destination])


def foreseen(
    routes: Sequence[Route], topics: Mapping[DatastreamName, Collection[str]]
) -> dict[DatastreamName, set[str]]:
    """What each datastream will select once the copies that it and the others may make are there. Copies
    that nothing can bring back are not followed."""
    returns = Returns(routes)
    around = [one for one in routes if one.datastream.name in circular(routes)]
    found = {name: set(chosen) for name, chosen in topics.items()}
    fresh = {one.datastream.name: set(topics.get(one.datastream.name, ())) for one in around}
    while any(fresh.values()):
        came: dict[DatastreamName, set[str]] = {one.datastream.name: set() for one in around}
        for route in around:
            copied = (one for one in fresh[route.datastream.name] if not returns.reason(route, one))
            names = [route.datastream.naming.destination(topic) for topic in copied]
            for other in around:
                if other.source == route.destination:
                    more = set(other.datastream.selection.choose(names))
                    came[other.datastream.name] |= more - found.setdefault(other.datastream.name, set())
        for name, more in came.items():
            found[name] |= more
        fresh = came
    return found


_ONTO_ITSELF: Final = (
    "it would copy topics onto themselves: its source and its destination are one cluster, and the topics"
    " keep their names"
)


def _strangers(routes: Sequence[Route]) -> dict[DatastreamName, str]:
    """Members of a group that do not copy as its oldest member does: lanes are named by group and partition,
    so that two sources would share their names."""
    first: dict[GroupName, Route] = {}
    refused = {}
    for route in sorted(routes, key=lambda one: one.age):
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
    for _, together in groupby(sorted(routes, key=lambda one: one.destination), lambda one: one.destination):
        here = sorted(together, key=lambda one: one.age)
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
    shown = sorted(reasons)[:_NAMES_SHOWN]
    more = f" and {len(reasons) - len(shown)} more" if len(reasons) > len(shown) else ""
    told = "; ".join(f"{topic}: {reasons[topic]}" for topic in shown)
    return f"{len(reasons)} {'topic is' if len(reasons) == 1 else 'topics are'} left out ({told}{more})"
