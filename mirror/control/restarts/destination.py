"""What a restart needs of the destination: no records that would be duplicated, and an accepted cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from mirror.coordination.stores.cluster_ids import WrittenClusters
from mirror.errors import IllegalTransition
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicPartition
from mirror.ports import TopicAdmin
from mirror.wording import counted

_T = TypeVar("_T")
_MOST_NAMED = 5


class AskAdmin(Protocol):
    """Asks the administrator of a cluster."""

    def __call__(self, cluster: ClusterRef, question: Callable[[TopicAdmin], _T], /) -> _T:
        """Return the answer. Raises Unreachable, NotAuthorized."""
        ...


class RestartDestinations:
    """Asks both clusters of a datastream that is to be restarted. Thread-safe."""

    def __init__(self, ask: AskAdmin, written: WrittenClusters) -> None:
        self._ask = ask
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
        counts = self._ask(datastream.source, lambda admin: admin.list_topics())
        present = self._ask(datastream.destination, lambda admin: admin.list_topics())
        topics = {datastream.naming.destination(topic) for topic in datastream.selection.choose(counts)}
        places = [
            TopicPartition(topic, number)
            for topic in sorted(topics & present.keys())
            for number in range(present[topic])
        ]
        found = self._ask(datastream.destination, lambda admin: admin.positions("", places))
        return {place: one.end - one.first for place, one in found.items()}

    def accept(self, datastream: Datastream) -> None:
        """Let the cluster be written to that answers at the destination's address now. Raises Unreachable."""
        where = datastream.destination
        self._written.accept(where, self._ask(where, lambda admin: admin.cluster_id()))
