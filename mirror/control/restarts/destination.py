"""What a restart needs of the destination: no records that would be duplicated, and an accepted cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirror.coordination.stores.cluster_ids import WrittenClusters
from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.ports import TopicAdmin
from mirror.wording import counted

_MOST_NAMED = 5


class RestartDestinations:
    """Asks both clusters of a datastream that is to be restarted. Thread-safe."""

    def __init__(self, admin_of: Callable[[ClusterRef], TopicAdmin], written: WrittenClusters) -> None:
        self._admin_of = admin_of
        self._written = written

    def require_empty(self, datastream: Datastream) -> None:
        """Raise IllegalTransition if destination topics hold records that would be there twice. Raises
        Unreachable, NotAuthorized."""
        held = {place: count for place, count in self._held(datastream).items() if count}
        if held:
            named = ", ".join(f"{place} ({count})" for place, count in sorted(held.items())[:_MOST_NAMED])
            more = ", …" if len(held) > _MOST_NAMED else ""
            raise IllegalTransition(
                f"{datastream.destination} holds {counted(sum(held.values()), 'offset')} that a restart may"
                f" duplicate: {named}{more}",
                advice="delete the records or topics there, or allow duplicates (--allow-duplicates)",
            )

    def _held(self, datastream: Datastream) -> Mapping[TopicPartition, int]:
        counts = self._admin_of(datastream.source).list_topics()
        destination = self._admin_of(datastream.destination)
        present = destination.list_topics()
        topics = {datastream.naming.destination(topic) for topic in datastream.selection.choose(counts)}
        places = [
            TopicPartition(topic, number)
            for topic in sorted(topics & present.keys())
            for number in range(present[topic])
        ]
        found = destination.positions("", places)
        return {place: one.end - one.first for place, one in found.items()}

    def accept(self, datastream: Datastream) -> None:
        """Let the cluster be written to that answers at the destination's address now. Raises Unreachable."""
        where = datastream.destination
        self._written.accept(where, self._admin_of(where).cluster_id())
