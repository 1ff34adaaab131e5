"""Topics at a destination that belong to a group of datastreams because the group created or adopted them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from mirror.coordination.stores.made_topics import MadeTopics
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName
from mirror.model.nodes import NodeChange

Written = Callable[[], Collection[str]]
"""Returns the source topics that a datastream's group is copying."""


class ClaimedTopics(NamedTuple):
    """Topics at the destination created for a group or adopted by it."""

    made: frozenset[str]
    adopted: frozenset[str]


class TopicClaims:
    """Records of created and adopted topics. A record is written before the topic is created or written.
    Thread-safe."""

    def __init__(self, made: MadeTopics, adopted: MadeTopics) -> None:
        self._made = made
        self._adopted = adopted

    def claimed_by(
        self,
        datastream: Datastream,
        written: Written,
        present: Collection[str],
        mirrored: Collection[str],
    ) -> ClaimedTopics:
        """Return the topics that belong to the datastream's group, after recording new topics in one change.

        A group that may no longer adopt topics keeps its adopted topics. Earlier versions kept no records. If
        a group has no record of created topics, the topics that it copies count as created. If a group has no
        record of adopted topics, the topics that it copies count as adopted. `present`: topics at the
        destination. `mirrored`: source topics. The group now adopts their destination topics, except topics
        that were created for the group.
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
        """Record that the given topics are created for the group."""
        self._made.add(group, cluster, names)

    def forget(self, group: GroupName) -> None:
        """Delete the adoptions of a group after its last datastream is deleted."""
        self._adopted.forget(group)
