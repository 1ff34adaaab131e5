"""Records which destination topics a group of datastreams has created or adopted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from mirror.coordination.stores.made_topics import MadeTopics
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.nodes import NodeChange

Written = Callable[[], Collection[str]]
"""Callback that returns the source topics that a group is copying."""


class ClaimedTopics(NamedTuple):
    """Destination topics that a group has created or adopted."""

    made: frozenset[str]
    adopted: frozenset[str]


class TopicClaims:
    """Records of created and adopted topics. Thread-safe.

    A record is stored before the topic is created or written.
    """

    def __init__(self, made: MadeTopics, adopted: MadeTopics) -> None:
        self._made = made
        self._adopted = adopted

    def claimed_by(
        self, datastream: Datastream, written: Written, present: Collection[str], mirrored: Collection[str]
    ) -> ClaimedTopics:
        """Record new topics in one transaction, and return all topics of the datastream's group.

        `present`: topics at the destination. `mirrored`: source topics. The group adopts their existing
        destination topics, unless it has created them. A group that may no longer adopt topics keeps its
        adopted topics.

        Earlier versions stored no records. If a record is missing, the topics that the group copies count as
        created or adopted, respectively.
        """
        group, where, naming = datastream.group, datastream.destination, datastream.naming
        changes = list[NodeChange]()
        record = self._made.of(group)
        if record is None:
            made = frozenset({naming.destination(topic) for topic in written()}.intersection(present))
            changes += self._made.addition(group, where, made)
        else:
            made = record.get(where, frozenset())
        known = self._adopted.of(group)
        copied = {*mirrored, *(written() if known is None else ())}
        names = {naming.destination(topic) for topic in copied}.intersection(present) - made
        before = (known or {}).get(where, frozenset())
        if known is None or not names <= before:
            changes += self._adopted.addition(group, where, names)
        self._made.apply(changes)
        return ClaimedTopics(made, frozenset() if datastream.adopts is False else before | names)

    def note_made(self, group: GroupName, cluster: ClusterRef, names: Collection[str]) -> None:
        """Record topics that will be created for a group."""
        self._made.add(group, cluster, names)

    def forget(self, group: GroupName) -> None:
        """Delete the record of adopted topics after the last datastream of a group was deleted."""
        self._adopted.forget(group)
