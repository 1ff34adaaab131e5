"""Topics at a destination that belong to a group of datastreams because the group created or adopted them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mirror.coordination.stores.made_topics import MadeTopics
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName

Written = Callable[[], Collection[str]]
"""Returns the source topics that a datastream's group copies at present."""


class TopicClaims:
    """Records of created and adopted topics. A record is written before the topic is created or written.
    Thread-safe."""

    def __init__(self, made: MadeTopics, adopted: MadeTopics) -> None:
        self._made = made
        self._adopted = adopted

    def made_for(self, datastream: Datastream, written: Written, present: Collection[str]) -> frozenset[str]:
        """Return the topics created for the datastream's group.

        Without a record, the topics that the group copies count as created, because earlier versions kept no
        record. `present`: topics at the destination.
        """
        made = self._made.of(datastream.group)
        if made is None:
            names = {datastream.naming.destination(topic) for topic in written()}.intersection(present)
            self._made.add(datastream.group, datastream.destination, names)
            return frozenset(names)
        return made.get(datastream.destination, frozenset())

    def note_made(self, group: GroupName, cluster: ClusterRef, names: Collection[str]) -> None:
        """Record that these topics are created for the group."""
        self._made.add(group, cluster, names)

    def adopted_for(
        self,
        datastream: Datastream,
        written: Written,
        foreign: Collection[str],
        mirrored: Collection[str],
    ) -> frozenset[str]:
        """Return the topics that existed before the datastream's group adopted them.

        A group that may no longer adopt topics keeps the topics that it has adopted. Without a record, topics
        that the group copies count as adopted, because earlier versions kept no record. `foreign`: topics at
        the destination that were not created for the group. `mirrored`: source topics whose destination
        topics the group adopts now.
        """
        known, where = self._adopted.of(datastream.group), datastream.destination
        copied = {*mirrored, *(written() if known is None else ())}
        names = {datastream.naming.destination(topic) for topic in copied}.intersection(foreign)
        before = (known or {}).get(where, frozenset())
        if known is None or not names <= before:
            self._adopted.add(datastream.group, where, names)
        return frozenset() if datastream.adopts is False else before | names

    def forget(self, group: GroupName) -> None:
        """Delete the adoptions of a group after its last datastream is deleted."""
        self._adopted.forget(group)
