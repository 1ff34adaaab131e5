"""Determines which source partitions the datastreams select.

Pure except for a cache: each expression is matched with each topic only once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror.errors import NotAuthorized
from mirror.model.bounds import shown
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicPartition, TopicSelection
from mirror.wording import first_few

TopicsByCluster = Mapping[ClusterRef, Mapping[str, int]]
"""Maps each cluster and topic to its partition count.

An identical object for a cluster means unchanged topics, so that cached results are reused.
"""

Wish = tuple[tuple[DatastreamName, ClusterRef, TopicSelection], ...]


@dataclass(frozen=True)
class MatchLimits:
    """Topics and partitions that a datastream must not copy. `left_out`: topics to omit completely.
    `partitions`: for other topics, number of partitions that may be copied."""

    left_out: frozenset[str] = frozenset()
    partitions: Mapping[str, int] = field(default_factory=dict)


NO_LIMITS: Final = MatchLimits()


class IncompleteTopic(NamedTuple):
    """A topic that is only partly copied: its number of copied partitions, and the reason."""

    copied: int
    reason: str


_NAMES_SHOWN: Final = 5
_AFTER_ALL: Final = "\U0010ffff"
"""Character that sorts after every other character."""


@dataclass
class _ClusterSelections:
    """Cached topic selections on one source cluster.

    `names`: sorted topic names of the cluster.
    """

    counts: Mapping[str, int]
    names: list[str]
    chosen: dict[TopicSelection, frozenset[str]] = field(default_factory=dict)
    wanted: dict[Wish, frozenset[TopicPartition]] = field(default_factory=dict)
    without_effect: dict[TopicSelection, tuple[str, ...]] = field(default_factory=dict)


class TopicMatching:
    """Computes and caches the topics that datastreams select. Not thread-safe.

    `own`: names of internal topics of Headrace.
    """

    def __init__(self, own: frozenset[str] = frozenset()) -> None:
        self._own = own
        self._clusters: dict[ClusterRef, _ClusterSelections] = {}
        self._limits: dict[DatastreamName, MatchLimits] = {}

    def limit(self, limits: Mapping[DatastreamName, MatchLimits]) -> None:
        """Replace the limits of all datastreams. A datastream without an entry has no limits."""
        changed = {
            name
            for name in limits.keys() | self._limits.keys()
            if limits.get(name, NO_LIMITS) != self.limits(name)
        }
        self._limits = {
            name: limit if name in changed else self.limits(name) for name, limit in limits.items()
        }
        if changed:
            for cluster in self._clusters.values():
                for key in [
                    members for members in cluster.wanted if any(name in changed for name, _, _ in members)
                ]:
                    del cluster.wanted[key]

    def forget_all_but(self, datastreams: Sequence[Datastream]) -> None:
        """Drop cached results that are not needed for the given datastreams."""
        known = {(datastream.name, datastream.source, datastream.selection) for datastream in datastreams}
        selections = {selection for _, _, selection in known}
        sources = {source for _, source, _ in known}
        self._clusters = {source: cached for source, cached in self._clusters.items() if source in sources}
        for cached in self._clusters.values():
            cached.wanted = {key: found for key, found in cached.wanted.items() if known.issuperset(key)}
            cached.chosen = {key: found for key, found in cached.chosen.items() if key in selections}
            cached.without_effect = {
                key: found for key, found in cached.without_effect.items() if key in selections
            }

    def wanted(
        self, members: Sequence[Datastream], topics: TopicsByCluster
    ) -> frozenset[TopicPartition] | None:
        """Return the source partitions that the datastreams of one group select. Returns None if the source
        cluster, which all members share, did not respond."""
        key = tuple((member.name, member.source, member.selection) for member in members)
        if not key:
            return frozenset()
        if any(source not in topics for _, source, _ in key):
            return None
        cluster = self._cluster(key[0][1], topics)
        found = cluster.wanted.get(key)
        if found is None:
            found = cluster.wanted[key] = frozenset(
                TopicPartition(topic, number)
                for member in members
                for topic in self.topics(member, topics)
                for number in range(self._count(member, topic, topics))
            )
        return found

    def limits(self, name: DatastreamName) -> MatchLimits:
        """Return the topics and partitions that a datastream must not copy.

        Returns the same object while the limits are unchanged.
        """
        return self._limits.get(name, NO_LIMITS)

    def topics(self, datastream: Datastream, topics: TopicsByCluster) -> frozenset[str]:
        """Return the source topics that a datastream mirrors.

        Raises KeyError if `topics` lacks the source cluster.
        """
        return self.selected(datastream, topics) - self.limits(datastream.name).left_out

    def selected(self, datastream: Datastream, topics: TopicsByCluster) -> frozenset[str]:
        """Return the source topics that a datastream selects, ignoring its limits.

        Raises KeyError if `topics` lacks the source cluster.
        """
        return self._chosen(self._cluster(datastream.source, topics), datastream.selection)

    def remarks(self, datastream: Datastream, topics: TopicsByCluster) -> tuple[str, ...]:
        """Return a warning for each part of a topic expression that matches no topic of the source.

        Raises KeyError if `topics` lacks the source cluster.
        """
        cluster, selection = self._cluster(datastream.source, topics), datastream.selection
        chosen = self._chosen(cluster, selection)
        if not chosen:
            return (unmatched_selection(datastream),)
        known = cluster.without_effect.get(selection)
        if known is None:
            known = tuple(_without_effect(datastream.source, selection, sorted(chosen), cluster.names))
            cluster.without_effect[selection] = known
        return known

    def _count(self, datastream: Datastream, topic: str, topics: TopicsByCluster) -> int:
        count = topics[datastream.source][topic]
        return min(count, self.limits(datastream.name).partitions.get(topic, count))

    def _cluster(self, source: ClusterRef, topics: TopicsByCluster) -> _ClusterSelections:
        """Update and return the cached selections for a cluster. Only new topics are matched."""
        counts = topics[source]
        known = self._clusters.get(source)
        if known is None:
            known = self._clusters[source] = _ClusterSelections(counts, sorted(counts))
        if known.counts is not counts:
            came, went = counts.keys() - known.counts.keys(), known.counts.keys() - counts.keys()
            changed = went | {topic for topic, count in counts.items() if known.counts.get(topic) != count}
            if came or went:
                known.without_effect.clear()
            stale = set()
            for selection, chosen in known.chosen.items():
                more = {topic for topic in came if self._matches(selection, topic)}
                if more or not chosen.isdisjoint(changed):
                    stale.add(selection)
                    known.chosen[selection] = (chosen | more) - went
            known.counts, known.names = counts, sorted(counts)
            for key in [
                members for members in known.wanted if any(selection in stale for _, _, selection in members)
            ]:
                del known.wanted[key]
        return known

    def _chosen(self, cluster: _ClusterSelections, selection: TopicSelection) -> frozenset[str]:
        chosen = cluster.chosen.get(selection)
        if chosen is None:
            names = _beginning_with(selection.beginnings, cluster.names)
            chosen = cluster.chosen[selection] = frozenset(selection.choose(names, self._own))
        return chosen

    def _matches(self, selection: TopicSelection, topic: str) -> bool:
        return selection.matches(topic) and (topic not in self._own or selection.takes_own(topic))


def unmatched_selection(datastream: Datastream) -> str:
    """Return the warning for a datastream that matches no topic of its source."""
    return (
        f"no topic of {datastream.source} matches {datastream.selection.include}"
        " (topics without the DESCRIBE permission are not listed)"
    )


def _without_effect(
    source: ClusterRef, selection: TopicSelection, chosen: Sequence[str], names: Collection[str]
) -> Iterator[str]:
    idle = [
        text
        for text, alone in selection.alternatives()
        if not any(map(alone.matches, _beginning_with(alone.beginnings, chosen)))
    ]
    if idle:
        yield unmatched_alternatives(source, idle)
    if selection.excludes_none(names):
        yield unmatched_exclude(source, selection)


def unmatched_alternatives(source: ClusterRef, alternatives: Sequence[str]) -> str:
    """Return the warning for alternatives of a topic expression that match no topic of the source."""
    listed = first_few([*map(shown, alternatives)], _NAMES_SHOWN)
    return f"no topic of {source} matches {listed} of the topic expression"


def unmatched_exclude(source: ClusterRef, selection: TopicSelection) -> str:
    """Return the warning for an exclude expression that matches no topic."""
    return f"exclude {shown(selection.exclude)} matches no topic of {source}"


def dotted_names(names: Collection[str], selected: Collection[str]) -> frozenset[str]:
    """Return the names that match a selected topic if a dot in the name stands for any character."""
    return frozenset(name for name in names if any(_stands_for(name, topic) for topic in selected))


def _stands_for(name: str, topic: str) -> bool:
    return len(name) == len(topic) and all(a in (b, ".") for a, b in zip(name, topic, strict=True))


def hidden_topics(source: ClusterRef, names: Collection[str]) -> NotAuthorized:
    """Return the error for topics that a datastream names but the source cluster hides."""
    shown = ", ".join(sorted(names)[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    return NotAuthorized(
        f"{source} hides {shown} (TOPIC_AUTHORIZATION_FAILED): if they exist, they are not copied",
        advice=f"grant Describe and Read on these topics to the user of {source}, or remove them from the"
        " expression",
    )


def _beginning_with(beginnings: Collection[str], names: Sequence[str]) -> Collection[str]:
    """Return the sorted names that start with any of the prefixes."""
    if len(beginnings) > len(names) or "" in beginnings:
        return names
    found: set[str] = set()
    for beginning in beginnings:
        first = bisect_left(names, beginning)
        end = bisect_left(names, beginning + _AFTER_ALL, first)
        found.update(names[first:end])
    return found
