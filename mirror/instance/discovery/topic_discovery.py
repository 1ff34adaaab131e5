"""Knows the topics of source and destination clusters, for the leader."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from mirror.bulkheads import Bulkhead
from mirror.coordination.discovery import Shortfall, TopicWork
from mirror.coordination.partition_selection import MatchLimits, TopicMatching, TopicsByCluster, dotted_names
from mirror.errors import HeadraceError, Unreachable
from mirror.instance.background_calls import BackgroundCalls, CallPending
from mirror.instance.discovery.hidden_topics import HiddenTopics
from mirror.instance.discovery.own_topics import OwnTopics
from mirror.instance.discovery.preparation import (
    LOOK_AGAIN_SECONDS,
    Preparation,
    PreparationQuery,
    Preparations,
    PreparationSteps,
    TopicRules,
    Waits,
    prepare,
    topics_at,
)
from mirror.instance.discovery.questions import ClusterIdentities
from mirror.loggers import get_logger
from mirror.model.datastreams.datastream import Datastream, clusters_of
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock, TopicAdmin

_log = get_logger(__name__)
_T = TypeVar("_T")
_NONE: Final[Waits] = {}


class TopicDiscovery:
    """Lists the topics of clusters at most once per interval. A slow cluster does not delay the others."""

    def __init__(
        self,
        admin_of: Callable[[ClusterRef], TopicAdmin],
        clock: Clock,
        interval_seconds: float,
        background_calls: BackgroundCalls,
        rules: TopicRules,
    ) -> None:
        self._admin_of = admin_of
        self._clock = clock
        self._background_calls = background_calls
        self._rules = rules
        self.matching = TopicMatching(rules.own)
        self.postponed = rules.postponed
        self.claims = rules.claims
        self.identities = ClusterIdentities(admin_of, clock, interval_seconds, background_calls)
        self.own_topics = OwnTopics(admin_of, background_calls, rules.bound)
        self._hidden_topics = HiddenTopics(admin_of, clock, background_calls)
        self._interval = interval_seconds
        self.illegal_topics: Mapping[ClusterRef, int] = {}
        """Number of topics with illegal names in the last topic list of each cluster."""
        self._topics: dict[ClusterRef, Mapping[str, int]] = {}
        self._judged: TopicsByCluster = {}
        self._requested_at: dict[ClusterRef, float] = {}
        self._problems: dict[ClusterRef, Exception] = {}
        self.preparations = Preparations(clock)
        self._left_out: Mapping[DatastreamName, frozenset[str]] = {}
        self._waiting: Waits = {}
        self._objections: dict[DatastreamName, tuple[Datastream, str]] = {}

    def ask(self, cluster: ClusterRef, key: str, job: Callable[[TopicAdmin], _T]) -> _T:
        """Run a request on the background thread of the cluster, and return the result. Raises the error of
        the request, or CallPending if the result is not available in time."""
        return self._background_calls.ask(
            f"positions at {cluster}", key, partial(job, self._admin_of(cluster))
        )

    def _list_topics(self, cluster: ClusterRef) -> Mapping[str, int]:
        admin = self._admin_of(cluster)
        self._rules.bound.require(cluster, admin.cluster_id())
        counts = admin.list_topics()
        self.illegal_topics = {**self.illegal_topics, cluster: admin.illegal_topics}
        return counts

    @property
    def problems(self) -> Mapping[ClusterRef, Exception]:
        """Map each source cluster whose last request failed to the error."""
        return self._problems

    def topics(self, clusters: Sequence[ClusterRef]) -> Mapping[ClusterRef, Mapping[str, int]]:
        """Map each cluster and topic to its partition count. An unavailable cluster is missing."""
        now = self._clock.monotonic()
        for cluster in clusters:
            if now - self._requested_at.get(cluster, -self._interval) >= self._interval:
                self._ask(cluster, now)
        return self.known_topics(clusters)

    def known_topics(self, clusters: Sequence[ClusterRef]) -> Mapping[ClusterRef, Mapping[str, int]]:
        """Map each cluster and topic to its last known partition count. Clusters whose last request failed
        are missing."""
        return {cluster: self._topics[cluster] for cluster in clusters if cluster in self._topics}

    def problem(self, cluster: ClusterRef) -> Exception:
        """Return the reason why the topics of a cluster are unknown."""
        found = self._problems.get(cluster)
        return found.with_traceback(None) if found else Unreachable(f"topics of {cluster} not listed yet")

    def prepare_destination(
        self, datastream: Datastream, written: Callable[[], Collection[str]]
    ) -> tuple[TopicWork, ...]:
        """Create and extend the destination topics of a datastream, and return the changes.

        Each call makes one step while topics are `remaining`. Raises the errors of the destination, and of
        the source if its topics are unknown; CallPending while the step is in progress. `written`: returns
        the source topics that the group is copying. The destination is read if a topic is missing, if the
        source has changed since the last success, and every ten minutes, because an operator may have changed
        a topic there.
        """
        source_counts = self._judged.get(datastream.source)
        if source_counts is None:
            problem = self._problems.get(datastream.source)
            if problem is not None:
                raise problem.with_traceback(None)
            return ()
        now, name = self._clock.monotonic(), datastream.name
        present, limits = self._topics.get(datastream.destination), self.matching.limits(name)
        question = PreparationQuery(datastream, source_counts, present, limits)
        known = self.preparations.latest.get(name)
        steps = known.steps_for(datastream) if known is not None else PreparationSteps()
        if known is not None and (steps.remaining or now >= known.look_again_at):
            known = None
        if known is not None and known.question.is_same(question):
            return ()
        mirrored = {
            topic: self._allowed(datastream, topic, source_counts[topic])
            for topic in self.matching.topics(datastream, self._judged)
        }
        wanted = {datastream.naming.destination(topic): count for topic, count in mirrored.items()}
        if known is not None and known.is_still_valid(question, wanted):
            self.preparations.latest[name] = replace(known, question=question)
            return ()
        preparation = Preparation(question, wanted, now + LOOK_AGAIN_SECONDS, steps=steps)
        self.preparations.begin(name)
        line = topics_at(datastream.destination)
        # A late result may belong to an older query, so it is returned with that query.
        clusters = self._admin_of(datastream.source), self._admin_of(datastream.destination)
        work, prepared = self._background_calls.ask(
            line, name, lambda: prepare(preparation, mirrored, written, self._rules, *clusters)
        )
        self._note_prepared(name, prepared)
        return work

    def leave_out(
        self,
        left_out: Mapping[DatastreamName, frozenset[str]],
        topics: TopicsByCluster,
        waiting: Waits = _NONE,
    ) -> None:
        """Set the topics that datastreams must not copy, and those that wait for a quota. `topics`: topics
        that were checked; newer topics are neither prepared nor planned."""
        self._judged = topics
        if (left_out, waiting) != (self._left_out, self._waiting):
            self._left_out, self._waiting = left_out, waiting
            self._limit()

    def forget_all_but(self, datastreams: Sequence[Datastream]) -> None:
        """Drop all data of datastreams and clusters that are no longer in use."""
        names = {datastream.name for datastream in datastreams}
        clusters = clusters_of(datastreams)
        self.matching.forget_all_but(datastreams)
        self._hidden_topics.forget_all_but(names)
        for name in self._objections.keys() - names:
            del self._objections[name]
        for cluster in self._requested_at.keys() - clusters:
            del self._requested_at[cluster]
            self._topics.pop(cluster, None)
            self._problems.pop(cluster, None)
        self.illegal_topics = {name: count for name, count in self.illegal_topics.items() if name in clusters}
        if self.preparations.latest.keys() - names:
            self.preparations.forget_all_but(names)
            self._limit()

    def _allowed(self, datastream: Datastream, topic: str, count: int) -> int:
        """Return how many partitions of a topic the datastream may copy. Partitions that wait for a quota do
        not extend the destination topic."""
        waits = self._waiting.get(datastream.name, {}).get(topic)
        return count if waits is None else min(count, waits.copied)

    def judged_topics(self, clusters: Sequence[ClusterRef]) -> TopicsByCluster:
        """Map each cluster and topic to the partition count that the last check of routes used. Clusters
        whose topics were unknown then are missing."""
        return {cluster: self._judged[cluster] for cluster in clusters if cluster in self._judged}

    def _note_prepared(self, name: DatastreamName, prepared: Preparation) -> None:
        known, destination = self.preparations.latest.get(name), prepared.question.datastream.destination
        if destination in self._topics:
            # Earlier results are older; a topic that is deleted again must be noticed.
            counts = self._topics[destination]
            self._topics[destination] = counts if counts == prepared.present else prepared.present
            question = replace(prepared.question, destination_counts=self._topics[destination])
            prepared = replace(prepared, question=question)
        self.preparations.note(name, prepared)
        for sentence in sorted(set(prepared.drift) - set(known.drift if known else ())):
            _log.warning("destination topic differs", datastream=name, difference=sentence)
        if prepared.short != (known.short if known else {}):
            self._limit()

    def _limit(self) -> None:
        short = {
            name: prepared.short for name, prepared in self.preparations.latest.items() if prepared.short
        }
        names = self._left_out.keys() | short.keys() | self._waiting.keys()
        self.matching.limit({name: self._limits_of(name, short.get(name, {})) for name in names})

    def _limits_of(self, name: DatastreamName, short: Mapping[str, Shortfall]) -> MatchLimits:
        """Return what a datastream must not copy. Excludes topics whose partitions all wait for a quota."""
        waits = self._waiting.get(name, {})
        most = {topic: wait.copied for topic, wait in waits.items()}
        for topic, shortfall in short.items():
            most[topic] = min(shortfall.partitions, most.get(topic, shortfall.partitions))
        whole = frozenset(topic for topic, wait in waits.items() if not wait.copied)
        return MatchLimits(self._left_out.get(name, frozenset()) | whole, most)

    def shortfalls(self, datastream: Datastream) -> Mapping[str, Shortfall]:
        """Return the source topics that have more partitions than their destination topic may have."""
        known = self.preparations.latest.get(datastream.name)
        return known.short if known else {}

    def objection(self, datastream: Datastream) -> str:
        """Return why a stored definition would now be rejected, or an empty string."""
        known = self._objections.get(datastream.name)
        if known is None or known[0] is not datastream:
            known = self._objections[datastream.name] = datastream, self._rules.objection(datastream)
        return known[1]

    def refusal(self, datastream: Datastream) -> str:
        """Return why a datastream is not mirrored under the current settings, or an empty string."""
        return self._rules.refusal(datastream)

    def remarks(self, datastream: Datastream) -> tuple[str, ...]:
        """Return a warning for each part of a topic expression that matches no topic.

        Empty until the source responds.
        """
        topics = self._judged
        return self.matching.remarks(datastream, topics) if datastream.source in topics else ()

    def hidden(self, datastream: Datastream) -> frozenset[str]:
        """Return the topics that a datastream names but Headrace may not describe, as of the last response.

        The source does not list these topics. Headrace requests missing topics by name every minute, and
        whenever they change.
        """
        listed = self._judged.get(datastream.source)
        names = datastream.selection.names - listed.keys() if listed is not None else frozenset()
        if names:
            names -= dotted_names(names, self.matching.selected(datastream, self._judged))
        return self._hidden_topics.of(datastream, names)

    def drift(self, datastream: Datastream) -> tuple[str, ...]:
        """Return a message for each setting of a destination topic that differs from that of a new topic. A
        different setting may be intentional, and is only reported."""
        known = self.preparations.latest.get(datastream.name)
        return known.drift if known else ()

    def _ask(self, cluster: ClusterRef, now: float) -> None:
        self._requested_at[cluster] = now
        try:
            with Bulkhead(partial(self._note_failure, cluster), through=(CallPending,)):
                found = self._background_calls.ask(
                    f"discovery at {cluster}", cluster, partial(self._list_topics, cluster)
                )
                if _is_outage(self._problems.pop(cluster, None)):
                    _log.warning("reading cluster again", cluster=cluster)
                if found != self._topics.get(cluster):  # the same object means no change
                    self._topics[cluster] = found
        except CallPending as error:
            del self._requested_at[cluster]
            self._problems.setdefault(cluster, error)  # an earlier problem is the better reason

    def _note_failure(self, cluster: ClusterRef, error: Exception) -> None:
        self._topics.pop(cluster, None)
        if not _is_outage(self._problems.get(cluster)):  # the reasons of one outage may alternate
            trace = None if isinstance(error, HeadraceError) else error
            _log.warning("cannot read cluster", cluster=cluster, reason=reason_of(error), exc_info=trace)
        self._problems[cluster] = error


def _is_outage(problem: Exception | None) -> bool:
    """Return whether the problem is a failed request. A pending request is not a failure."""
    return problem is not None and not isinstance(problem, CallPending)
