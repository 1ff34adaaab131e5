"""Creates topics, many with one request, and adapts settings that the cluster rejects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from mirror.client.cluster import Cluster
from mirror.errors import HeadraceError
from mirror.model.datastreams.policy import FORCED_SETTINGS
from mirror.model.topics import TOPICS_AT_ONCE, TopicCreation, TopicDescription, first_request
from mirror.protocol.codes import Code
from mirror.protocol.control.call import Call
from mirror.protocol.control.topics import TopicOutcome, adjusted_setting, create_topics

_OF_ONE_OR_ALL: Final = frozenset({Code.UNKNOWN_SERVER_ERROR, Code.INVALID_REQUEST, Code.POLICY_VIOLATION})
"""Errors that a controller returns for all topics of a request, because of one topic or of their number."""


async def create_adjusted(cluster: Cluster, topic: TopicDescription, replication: int) -> Sequence[str]:
    """Create one topic, unless it exists. Returns and raises as `TopicAdmin.create`."""
    creations = TopicCreations([topic], replication)
    await creations.run(cluster)
    made = creations.results[topic.name]
    if made.error is not None:
        raise made.error
    return made.adjustments


@dataclass
class Attempt:
    """An attempt to create one topic. `partitions`: number of new partitions. `settings`: settings of the
    next request. `reasons`: maps each rejected setting to the cluster's reason."""

    topic: TopicDescription
    partitions: int
    settings: dict[str, str]
    reasons: dict[str, str] = field(default_factory=dict)

    def adjust(self, outcome: TopicOutcome) -> bool:
        """Clamp or omit the topic setting that the cluster has rejected. Return False if its error names no
        setting."""
        optional = {key: self.settings[key] for key in self.settings.keys() - FORCED_SETTINGS.keys()}
        refused = adjusted_setting(outcome.error, outcome.message, optional)
        if refused is None:
            return False
        key, value = refused
        if value is None or key in self.reasons:
            del self.settings[key]
        else:
            self.settings[key] = value
        self.reasons[key] = outcome.message
        return True

    def without(self, key: str) -> Attempt:
        """Return a copy of this attempt without one topic setting."""
        fewer = {name: value for name, value in self.settings.items() if name != key}
        return replace(self, settings=fewer, reasons={**self.reasons, key: "the broker gave no reason"})

    def sentences(self) -> tuple[str, ...]:
        """Return a sentence for each topic setting that was clamped or omitted."""
        return tuple(
            f"{self.topic.name}: {key} is {self.settings.get(key, 'the default')} instead of"
            f" {self.topic.settings[key]}, which the destination rejects ({reason})"
            for key, reason in sorted(self.reasons.items())
        )


class TopicCreations:
    """Creates many topics with few requests.

    Clamps or omits each setting that the cluster rejects. Never omits the settings without which copies would
    differ from the source (`FORCED_SETTINGS`). An existing topic counts as created. `results`: result of each
    finished topic.
    """

    done: ClassVar = frozenset({Code.NONE, Code.TOPIC_ALREADY_EXISTS})
    """Result codes of topics that exist with the requested settings."""

    def __init__(self, topics: Iterable[TopicDescription], replication: int) -> None:
        self._replication = replication
        self._attempts = {
            topic.name: Attempt(topic, topic.partitions, dict(topic.settings)) for topic in topics
        }
        self._most = TOPICS_AT_ONCE
        self.results: dict[str, TopicCreation] = {}

    async def run(self, cluster: Cluster) -> None:
        """Create the topics that have no result yet.

        May be called again after a retriable error, even if a response was lost. Raises Unreachable, also if
        some topics have no result because of transient errors.
        """
        await self.refresh(cluster, self._attempts)
        waiting = list(self._attempts.values())
        failure: HeadraceError | None = None
        while waiting:
            size = first_request((attempt.partitions for attempt in waiting), self._most)
            part, waiting = waiting[:size], waiting[size:]
            outcomes = await self._send(cluster, part)
            final: list[Attempt] = []
            for attempt in part:
                (waiting if attempt.adjust(outcomes[attempt.topic.name]) else final).append(attempt)
            if len(final) == size > 1 and _is_of_the_request(outcomes.values()):
                self._most, waiting = size // 2, final + waiting
                continue
            for attempt in final:
                outcome = outcomes[attempt.topic.name]
                error = self._error(cluster, attempt, outcome)
                if error is not None and error.retriable:
                    failure = failure or error
                else:
                    await self.settle(cluster, attempt, outcome)
        if failure is not None:
            raise failure

    async def refresh(self, cluster: Cluster, attempts: dict[str, Attempt]) -> None:
        """Look up the controller, which may have moved, before the CreateTopics requests."""
        await cluster.refresh(())

    def call(self, topics: Sequence[TopicDescription]) -> Call[Mapping[str, TopicOutcome]]:
        """Return the CreateTopics request for several topics."""
        return create_topics(topics, self._replication)

    def purpose(self, topic: TopicDescription) -> tuple[str, str]:
        """Return the operation and the permission that it requires, as texts for error messages."""
        return f"cannot create topic {topic.name}", f"Create on topic {topic.name} or on the cluster"

    async def _send(self, cluster: Cluster, part: Sequence[Attempt]) -> Mapping[str, TopicOutcome]:
        """Send one CreateTopics request, and return the outcome of each topic.

        One of the topics, or their number, may cause a failure. After a failure, the next requests are
        therefore smaller, and begin with other topics.
        """
        wanted = [replace(attempt.topic, settings=attempt.settings) for attempt in part]
        try:
            found = await cluster.ask_controller(self.call(wanted))
        except HeadraceError:
            self._most = max(1, len(part) // 2)
            for attempt in part:
                self._attempts[attempt.topic.name] = self._attempts.pop(attempt.topic.name)
            raise
        nothing = TopicOutcome(Code.UNKNOWN_SERVER_ERROR, "no result")
        return {topic.name: found.get(topic.name, nothing) for topic in wanted}

    async def settle(self, cluster: Cluster, attempt: Attempt, outcome: TopicOutcome) -> None:
        """Set the result of creating a topic. If the cluster rejects a setting without naming it, first try
        to create the topic without each setting in turn."""
        optional = attempt.settings.keys() - FORCED_SETTINGS.keys()
        for key in sorted(optional) if outcome.error == Code.INVALID_CONFIG else ():
            fewer = attempt.without(key)
            again = (await self._send(cluster, [fewer]))[attempt.topic.name]
            if again.error != Code.INVALID_CONFIG:
                attempt, outcome = fewer, again
                break
        del self._attempts[attempt.topic.name]
        error = self._error(cluster, attempt, outcome)
        self.results[attempt.topic.name] = TopicCreation(error, attempt.sentences() if error is None else ())

    def _error(self, cluster: Cluster, attempt: Attempt, outcome: TopicOutcome) -> HeadraceError | None:
        if outcome.error in self.done:
            return None
        return cluster.error(outcome.error, *self.purpose(attempt.topic), outcome.message)


def _is_of_the_request(outcomes: Collection[TopicOutcome]) -> bool:
    """Return whether all topics failed with an error that one of them or the request size may cause."""
    return len(set(outcomes)) == 1 and next(iter(outcomes)).error in _OF_ONE_OR_ALL
