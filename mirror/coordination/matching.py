"""Which partitions datastreams want of their source clusters. Pure but for what it remembers: an
expression is tried on a topic once, however often the leader looks at a world that has not changed.
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
"""Partition counts by topic. A cluster whose topics have not changed is given as the same object."""

Wish = tuple[tuple[DatastreamName, ClusterRef, TopicSelection], ...]


@dataclass(frozen=True)
class Limits:
    """What a datastream must not copy of what it selects: whole topics, and of some topics the partitions
    from a number on."""

    left_out: frozenset[str] = frozenset()
    partitions: Mapping[str, int] = field(default_factory=dict)


NO_LIMITS: Final = Limits()


class Waiting(NamedTuple):
    """Of a topic that is not to be copied yet, or not all of it: how many partitions are, and why not
    more."""

    copied: int
    reason: str


_NAMES_SHOWN: Final = 5
_AFTER_ALL: Final = "\U0010ffff"
"""Sorts after every other character."""


@dataclass
class _Cluster:
    """`names`: its topics, sorted."""

    counts: Mapping[str, int]
    names: list[str]
    chosen: dict[TopicSelection, frozenset[str]] = field(default_factory=dict)
    wanted: dict[Wish, frozenset[TopicPartition]] = field(default_factory=dict)
    without_effect: dict[TopicSelection, tuple[str, ...]] = field(default_factory=dict)


class TopicMatching:
    """Used by one thread. `own`: topics that Headrace writes for itself under names that were configured."""

    def __init__(self, own: frozenset[str] = frozenset()) -> None:
        self._own = own
        self._clusters: dict[ClusterRef, _Cluster] = {}
        self._limits: dict[DatastreamName, Limits] = {}

    def limit(self, limits: Mapping[DatastreamName, Limits]) -> None:
        """What datastreams must not copy from now on; one that is not named has no limits."""
        changed = {
            name
            for name in limits.keys() | self._limits.keys()
            if limits.get(name, NO_LIMITS) != self.limits(name)
        }
        self._limits = {name: one if name in changed else self.limits(name) for name, one in limits.items()}
        if changed:
            for cluster in self._clusters.values():
                for wish in [one for one in cluster.wanted if any(name in changed for name, _, _ in one)]:
                    del cluster.wanted[wish]

    def wanted(
        self, members: Sequence[Datastream], topics: TopicsByCluster
    ) -> frozenset[TopicPartition] | None:
        """What datastreams that share tasks should mirror; None when one of their source clusters could
        not be asked. They copy from one cluster, as `Control` makes sure."""
        wish = tuple((one.name, one.source, one.selection) for one in members)
        if not wish:
            return frozenset()
        if any(source not in topics for _, source, _ in wish):
            return None
        cluster = self._cluster(wish[0][1], topics)
        found = cluster.wanted.get(wish)
        if found is None:
            found = cluster.wanted[wish] = frozenset(
                TopicPartition(topic, number)
                for one in members
                for topic in self.topics(one, topics)
                for number in range(self._count(one, topic, topics))
            )
        return found

    def limits(self, name: DatastreamName) -> Limits:
        """What a datastream must not copy; the same object as long as nothing about it has changed."""
        return self._limits.get(name, NO_LIMITS)

    def topics(self, datastream: Datastream, topics: TopicsByCluster) -> frozenset[str]:
        """Which of its source cluster's topics a datastream mirrors. Raises KeyError when that is missing."""
        return self.selected(datastream, topics) - self.limits(datastream.name).left_out

    def selected(self, datastream: Datastream, topics: TopicsByCluster) -> frozenset[str]:
        """Which of its source cluster's topics a datastream would mirror if there were no limits. Raises
        KeyError when that cluster is missing."""
        return self._chosen(self._cluster(datastream.source, topics), datastream.selection)

    def remarks(self, datastream: Datastream, topics: TopicsByCluster) -> tuple[str, ...]:
        """Return a sentence about each part of its expressions that has no effect at the source cluster.
        Raises KeyError when that cluster is missing."""
        cluster, selection = self._cluster(datastream.source, topics), datastream.selection
        chosen = self._chosen(cluster, selection)
        if not chosen:
            return (nothing_matches(datastream),)
        known = cluster.without_effect.get(selection)
        if known is None:
            known = tuple(_without_effect(datastream.source, selection, sorted(chosen), cluster.names))
            cluster.without_effect[selection] = known
        return known

    def _count(self, datastream: Datastream, topic: str, topics: TopicsByCluster) -> int:
        count = topics[datastream.source][topic]
        return min(count, self.limits(datastream.name).partitions.get(topic, count))

    def _cluster(self, source: ClusterRef, topics: TopicsByCluster) -> _Cluster:
        """Brought up to date: expressions are tried on the topics that have come."""
        counts = topics[source]
        known = self._clusters.get(source)
        if known is None:
            known = self._clusters[source] = _Cluster(counts, sorted(counts))
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
            for wish in [one for one in known.wanted if any(selection in stale for _, _, selection in one)]:
                del known.wanted[wish]
        return known

    def _chosen(self, cluster: _Cluster, selection: TopicSelection) -> frozenset[str]:
        chosen = cluster.chosen.get(selection)
        if chosen is None:
            found = selection.choose(_beginning_with(selection.beginnings, cluster.names))
            chosen = frozenset(one for one in found if not self._is_own(selection, one))
            cluster.chosen[selection] = chosen
        return chosen

    def _matches(self, selection: TopicSelection, topic: str) -> bool:
        return selection.matches(topic) and not self._is_own(selection, topic)

    def _is_own(self, selection: TopicSelection, topic: str) -> bool:
        return topic in self._own and not selection.takes_own(topic)


def nothing_matches(datastream: Datastream) -> str:
    """A remark about a datastream of which the source cluster lists no topic."""
    return (
        f"no topic of {datastream.source} matches {datastream.selection.include}"
        " (topics without the right DESCRIBE are not listed)"
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
        yield selects_nothing(source, idle)
    if selection.excludes_none(names):
        yield excludes_nothing(source, selection)


def selects_nothing(source: ClusterRef, alternatives: Sequence[str]) -> str:
    """A remark about alternatives of a topic expression without effect."""
    listed = first_few([*map(shown, alternatives)], _NAMES_SHOWN)
    return f"no topic of {source} matches {listed} of the topic expression"


def excludes_nothing(source: ClusterRef, selection: TopicSelection) -> str:
    """A remark about an exclusion without effect."""
    return f"exclude {shown(selection.exclude)} matches no topic of {source}"


def meant_otherwise(names: Collection[str], selected: Collection[str]) -> frozenset[str]:
    """Those of the names in an expression whose dots stand for another character, as topics that it selects
    show."""
    return frozenset(one for one in names if any(_stands_for(one, topic) for topic in selected))


def _stands_for(name: str, topic: str) -> bool:
    return len(name) == len(topic) and all(a in (b, ".") for a, b in zip(name, topic, strict=True))


def hidden_topics(source: ClusterRef, names: Collection[str]) -> NotAuthorized:
    """What is wrong where a source cluster hides topics that a datastream names."""
    shown = ", ".join(sorted(names)[:_NAMES_SHOWN]) + (", …" if len(names) > _NAMES_SHOWN else "")
    return NotAuthorized(
        f"{source} does not show {shown} (TOPIC_AUTHORIZATION_FAILED): they may exist and are not copied",
        advice="grant DESCRIBE and READ on them, or take them out of the expression",
    )


def _beginning_with(beginnings: Collection[str], names: Sequence[str]) -> Collection[str]:
    """Those of sorted names that begin with one of these."""
    if len(beginnings) > len(names) or "" in beginnings:
        return names
    found: set[str] = set()
    for one in beginnings:
        first = bisect_left(names, one)
        end = bisect_left(names, one + _AFTER_ALL, first)
        found.update(names[first:end])
    return found
