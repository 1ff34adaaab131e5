"""Which partitions datastreams want of their source clusters. Pure but for what it remembers: an
expression is tried on a topic once, however often the leader looks at a world that has not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition, TopicSelection

TopicsByCluster = Mapping[ClusterRef, Mapping[str, int]]
"""Partition counts by topic. A cluster whose topics have not changed is given as the same object."""

Wish = tuple[tuple[ClusterRef, TopicSelection], ...]


@dataclass
class _Cluster:
    counts: Mapping[str, int]
    chosen: dict[TopicSelection, frozenset[str]] = field(default_factory=dict)
    wanted: dict[Wish, frozenset[TopicPartition]] = field(default_factory=dict)


class TopicMatching:
    """Used by one thread."""

    def __init__(self) -> None:
        self._clusters: dict[ClusterRef, _Cluster] = {}

    def wanted(
        self, members: Sequence[Datastream], topics: TopicsByCluster
    ) -> frozenset[TopicPartition] | None:
        """What datastreams that share tasks should mirror; None when one of their source clusters could
        not be asked. They copy from one cluster, as `Control` makes sure."""
        wish = tuple((one.source, one.selection) for one in members)
        if not wish:
            return frozenset()
        if any(source not in topics for source, _ in wish):
            return None
        cluster = self._cluster(wish[0][0], topics)
        if wish not in cluster.wanted:
            cluster.wanted[wish] = frozenset(
                TopicPartition(topic, number)
                for source, selection in wish
                for topic in self._chosen(self._cluster(source, topics), selection)
                for number in range(topics[source][topic])
            )
        return cluster.wanted[wish]

    def topics(self, datastream: Datastream, topics: TopicsByCluster) -> frozenset[str]:
        """Which of its source cluster's topics a datastream mirrors. Raises KeyError when that is missing."""
        return self._chosen(self._cluster(datastream.source, topics), datastream.selection)

    def _cluster(self, source: ClusterRef, topics: TopicsByCluster) -> _Cluster:
        """Brought up to date: expressions are tried on the topics that have come."""
        counts = topics[source]
        known = self._clusters.setdefault(source, _Cluster(counts))
        if known.counts is not counts:
            came, went = counts.keys() - known.counts.keys(), known.counts.keys() - counts.keys()
            changed = went | {topic for topic, count in counts.items() if known.counts.get(topic) != count}
            stale = set()
            for selection, chosen in known.chosen.items():
                more = {topic for topic in came if selection.matches(topic)}
                if more or not chosen.isdisjoint(changed):
                    stale.add(selection)
                    known.chosen[selection] = (chosen | more) - went
            known.counts = counts
            for wish in [one for one in known.wanted if any(selection in stale for _, selection in one)]:
                del known.wanted[wish]
        return known

    def _chosen(self, cluster: _Cluster, selection: TopicSelection) -> frozenset[str]:
        if selection not in cluster.chosen:
            cluster.chosen[selection] = frozenset(selection.choose(cluster.counts))
        return cluster.chosen[selection]
