"""What the leader learns of the Kafka clusters: source topics, and their twins at the destinations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from mirror.coordination.discovery import TopicWork, destination_description, drift, topic_work
from mirror.coordination.matching import TopicMatching
from mirror.coordination.problems import reason_of
from mirror.errors import HeadraceError
from mirror.instance.errands import Errands, StillAsking
from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import TopicDescription
from mirror.ports import Clock, TopicAdmin

_log = structlog.get_logger(__name__)
_LOOK_AGAIN_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A datastream's destination as it was left, and what of the source it was made for.

    `source_counts` is compared by identity: the same object means that nothing has changed.
    """

    datastream: Datastream
    source_counts: Mapping[str, int]
    wanted: Mapping[str, int]
    look_again_at: float
    drift: tuple[str, ...] = ()

    def holds_for(self, datastream: Datastream, source_counts: Mapping[str, int], now: float) -> bool:
        return (
            now < self.look_again_at and self.datastream == datastream and self.source_counts is source_counts
        )

    def needs_nothing_for(self, datastream: Datastream, wanted: Mapping[str, int], now: float) -> bool:
        is_same = self.datastream.destination == datastream.destination and self.wanted == wanted
        return now < self.look_again_at and is_same


class Surroundings:
    """Asks clusters at most once an interval; one that does not answer delays nobody else's answer."""

    def __init__(
        self,
        admin_of: Callable[[ClusterRef], TopicAdmin],
        clock: Clock,
        interval_seconds: float,
        errands: Errands,
    ) -> None:
        self._admin_of = admin_of
        self._clock = clock
        self._errands = errands
        self.matching = TopicMatching()
        self._interval = interval_seconds
        self._topics: dict[ClusterRef, Mapping[str, int]] = {}
        self._asked_at: dict[ClusterRef, float] = {}
        self._problems: dict[ClusterRef, Exception] = {}
        self._prepared: dict[DatastreamName, _Prepared] = {}
        self._own_topics: dict[str, tuple[ClusterRef, TopicDescription]] = {}

    def need_topic(self, cluster: ClusterRef, topic: TopicDescription) -> None:
        """Name a topic that the service itself writes to; `ensure_own_topics` makes it."""
        self._own_topics[topic.name] = (cluster, topic)

    def ensure_own_topics(self) -> None:
        """Make the service's topics; one that cannot be made now is tried again at the next call."""
        for name, (cluster, topic) in tuple(self._own_topics.items()):
            try:
                self._errands.ask(_topics_at(cluster), name, partial(self._admin_of(cluster).create, topic))
            except StillAsking:
                continue
            except Exception as error:  # noqa: BLE001 - the bulkhead around one topic
                _log.warning("topic cannot be made yet", topic=name, cluster=cluster, reason=reason_of(error))
            else:
                del self._own_topics[name]

    @property
    def problems(self) -> Mapping[ClusterRef, Exception]:
        """Source clusters that did not answer the last time, and why."""
        return self._problems

    def topics(self, clusters: Sequence[ClusterRef]) -> Mapping[ClusterRef, Mapping[str, int]]:
        """Partition counts by topic; a cluster that cannot be asked now is missing."""
        now = self._clock.monotonic()
        for cluster in clusters:
            if now - self._asked_at.get(cluster, -self._interval) >= self._interval:
                self._ask(cluster, now)
        return {cluster: self._topics[cluster] for cluster in clusters if cluster in self._topics}

    def prepare_destination(self, datastream: Datastream) -> tuple[TopicWork, ...]:
        """Make and grow destination topics; returns what was done. Raises what a cluster answered, also of
        the source when its topics are not known, and StillAsking while it is under way.

        The destination is asked only when the source's side has changed since the last success, and every
        ten minutes: somebody may have changed or deleted a topic there.
        """
        source_counts = self._topics.get(datastream.source)
        if source_counts is None:
            problem = self._problems.get(datastream.source)
            if problem is not None:
                raise problem.with_traceback(None)
            return ()
        now, name = self._clock.monotonic(), datastream.name
        known = self._prepared.get(name)
        if known is not None and known.holds_for(datastream, source_counts, now):
            return ()
        mirrored = {topic: source_counts[topic] for topic in self.matching.topics(datastream, self._topics)}
        wanted = {datastream.naming.destination(topic): count for topic, count in mirrored.items()}
        if known is not None and known.needs_nothing_for(datastream, wanted, now):
            self._prepared[name] = replace(known, datastream=datastream, source_counts=source_counts)
            return ()
        question = _Prepared(datastream, source_counts, wanted, now + _LOOK_AGAIN_SECONDS)
        line = _topics_at(datastream.destination)
        # A late answer may be to an older question: it comes with what it was made for.
        work, prepared = self._errands.ask(line, name, lambda: self._prepare(question, mirrored))
        self._prepared[name] = prepared
        for sentence in sorted(set(prepared.drift) - set(known.drift if known else ())):
            _log.warning("destination topic differs", datastream=name, difference=sentence)
        return work

    def drift(self, datastream: Datastream) -> tuple[str, ...]:
        """Settings of destination topics that are not as they would be made today, a sentence each. They
        are only told: whoever runs the destination may want them so."""
        known = self._prepared.get(datastream.name)
        return known.drift if known else ()

    def _prepare(
        self, question: _Prepared, mirrored: Mapping[str, int]
    ) -> tuple[tuple[TopicWork, ...], _Prepared]:
        datastream = question.datastream
        destination = self._admin_of(datastream.destination)
        present = destination.list_topics()
        descriptions = self._admin_of(datastream.source).describe(sorted(mirrored)) if mirrored else {}
        work = topic_work(datastream, mirrored, present, descriptions)
        for item in work:
            if item.create:
                destination.create(item.topic)
            else:
                destination.grow(item.topic.name, item.topic.partitions)
        wanted = {
            datastream.naming.destination(topic): destination_description(one, one.name)
            for topic, one in descriptions.items()
            if datastream.naming.destination(topic) in present
        }
        found = destination.describe(sorted(wanted)) if wanted else {}
        differing = [sentence for name, one in found.items() for sentence in drift(wanted[name], one)]
        return work, replace(question, drift=tuple(sorted(differing)))

    def _ask(self, cluster: ClusterRef, now: float) -> None:
        self._asked_at[cluster] = now
        try:
            found = self._errands.ask(f"discovery at {cluster}", cluster, self._admin_of(cluster).list_topics)
        except StillAsking as error:
            del self._asked_at[cluster]
            self._note_problem(cluster, error)
        except Exception as error:  # noqa: BLE001 - the bulkhead around one cluster
            self._topics.pop(cluster, None)
            self._note_problem(cluster, error)
        else:
            self._problems.pop(cluster, None)
            if found != self._topics.get(cluster):  # the same object means that nothing has changed
                self._topics[cluster] = found

    def _note_problem(self, cluster: ClusterRef, error: Exception) -> None:
        reason, before = reason_of(error), self._problems.get(cluster)
        if before is None or reason_of(before) != reason:
            trace = None if isinstance(error, HeadraceError) else error
            _log.warning("cluster does not answer", cluster=cluster, reason=reason, exc_info=trace)
        self._problems[cluster] = error


def _topics_at(cluster: ClusterRef) -> str:
    return f"topics at {cluster}"
