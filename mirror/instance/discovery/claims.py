"""Which topics at a destination are a group's of datastreams: made for it, or adopted by it."""

from __future__ import annotations

from collections.abc import Callable, Collection

from mirror.coordination.stores.made_topics import MadeTopics
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, GroupName

Written = Callable[[], Collection[str]]
"""Source topics that a datastream's group copies as things are."""


class TopicClaims:
    """Records of both kinds, which are made before a topic is written. Thread-safe."""

    def __init__(self, made: MadeTopics, adopted: MadeTopics) -> None:
        self._made = made
        self._adopted = adopted

    def made_for(self, datastream: Datastream, written: Written, present: Collection[str]) -> frozenset[str]:
        """Topics made for its group; what a group copies of which nothing is recorded was made by a version
        that kept no record. `present`: topics at the destination."""
        made = self._made.of(datastream.group)
        if made is None:
            names = {datastream.naming.destination(topic) for topic in written()}.intersection(present)
            self._made.add(datastream.group, datastream.destination, names)
            return frozenset(names)
        return made.get(datastream.destination, frozenset())

    def note_made(self, group: GroupName, cluster: ClusterRef, names: Collection[str]) -> None:
        """These are made for it now."""
        self._made.add(group, cluster, names)

    def adopted_for(
        self,
        datastream: Datastream,
        written: Written,
        foreign: Collection[str],
        mirrored: Collection[str],
    ) -> frozenset[str]:
        """Topics of its group that were there before it: one that may not adopt any more keeps them. What a
        group copies of which nothing is recorded was adopted by a version that kept no record. `foreign`:
        topics at the destination that were not made for the group; `mirrored`: source topics that it adopts
        the copies of now."""
        known, where = self._adopted.of(datastream.group), datastream.destination
        copied = {*mirrored, *(written() if known is None else ())}
        names = {datastream.naming.destination(topic) for topic in copied}.intersection(foreign)
        before = (known or {}).get(where, frozenset())
        if known is None or not names <= before:
            self._adopted.add(datastream.group, where, names)
        return frozenset() if datastream.adopts is False else before | names

    def forget(self, group: GroupName) -> None:
        """Its last datastream is gone: what it has adopted is not its own any more."""
        self._adopted.forget(group)
