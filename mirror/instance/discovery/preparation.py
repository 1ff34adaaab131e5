"""Creates and extends the destination topics of one datastream, and stores which topics it owns."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice
from typing import Final, NamedTuple

from mirror.coordination.datastream_records.made_topics import MadeTopics
from mirror.coordination.discovery import (
    Shortfall,
    TopicWork,
    destination_description,
    drift,
    shortfalls,
    topic_work,
)
from mirror.coordination.partition_selection import IncompleteTopic, MatchLimits
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.errors import HeadraceError
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName, GroupName
from mirror.model.nodes import NodeChange
from mirror.model.reasons import reason_of
from mirror.model.topics import TopicCreation, TopicDescription, first_request
from mirror.ports import Clock, TopicAdmin

Written = Callable[[], Collection[str]]
"""Callback that returns the source topics that a group is copying."""


class ClaimedTopics(NamedTuple):
    """Destination topics of a group: those that it created, and existing topics that it adopted."""

    created: frozenset[str]
    adopted: frozenset[str]


class TopicClaims:
    """Stores which destination topics each group has created or adopted. Thread-safe.

    A record is stored before the topic is created or written.
    """

    def __init__(self, created: MadeTopics, adopted: MadeTopics) -> None:
        self._created = created
        self._adopted = adopted

    def claimed_by(
        self, datastream: Datastream, written: Written, present: Collection[str], mirrored: Collection[str]
    ) -> ClaimedTopics:
        """Store that new destination topics belong to a datastream, and return all topics of its group.

        `present`: topics at the destination. `mirrored`: source topics. The group adopts existing destination
        topics that it has not created. A group that may no longer adopt topics keeps its adopted topics.
        Earlier versions stored no records: without a record, the topics that the group copies count as
        created or adopted.
        """
        group, where, naming = datastream.group, datastream.destination, datastream.naming
        changes = list[NodeChange]()
        record = self._created.of(group)
        if record is None:
            created = frozenset({naming.destination(topic) for topic in written()}.intersection(present))
            changes += self._created.addition(group, where, created)
        else:
            created = record.get(where, frozenset())
        known = self._adopted.of(group)
        copied = {*mirrored, *(written() if known is None else ())}
        names = {naming.destination(topic) for topic in copied}.intersection(present) - created
        before = (known or {}).get(where, frozenset())
        if known is None or not names <= before:
            changes += self._adopted.addition(group, where, names)
        self._created.apply(changes)
        return ClaimedTopics(created, frozenset() if datastream.adopts is False else before | names)

    def note_creation(self, group: GroupName, cluster: ClusterRef, names: Collection[str]) -> None:
        """Store that destination topics belong to a group, before they are created."""
        self._created.add(group, cluster, names)

    def adopted_path(self, group: GroupName) -> str:
        """Return the path of a group's record of adopted topics."""
        return self._adopted.path_of(group)


Waits = Mapping[DatastreamName, Mapping[str, IncompleteTopic]]
"""Source topics that a datastream must not copy yet, or not completely."""
Selected = tuple[Datastream, Mapping[str, int]]
"""A datastream with the partition counts of its selected topics."""
LOOK_AGAIN_SECONDS: Final = 600.0
_SETTLING_SECONDS: Final = 30.0
"""Seconds until instances report lanes whose destination topics were just created."""
_SOONER_SECONDS: Final = LOOK_AGAIN_SECONDS - 60.0
"""Seconds by which rejected topics are retried earlier than the regular interval."""
_SAMPLED_TOPICS: Final = 10
"""Number of destination topics whose settings are requested to read the broker defaults."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Rules for creating and extending destination topics.

    `bound`: stored cluster ids. `claims`: records of created and adopted topics. `most_partitions`: maximum
    partition count of a created or extended topic. `own`: internal topics of Headrace in the settings.
    `adopts`: returns whether a datastream may write to existing topics. `objection`: returns why a stored
    definition would now be rejected. `refusal`: returns why a datastream is not mirrored, or an empty string.
    `postponed`: returns the partitions that wait for a quota; None without quotas.
    """

    bound: BoundClusters
    claims: TopicClaims
    most_partitions: int
    own: frozenset[str] = frozenset()
    adopts: Callable[[Datastream], bool] = lambda _: True
    objection: Callable[[Datastream], str] = lambda _: ""
    refusal: Callable[[Datastream], str] = lambda _: ""
    postponed: Callable[[Sequence[Selected], Mapping[GroupName, Mapping[str, int]]], Waits] | None = None


@dataclass(frozen=True, slots=True)
class PreparationQuery:
    """Input of the preparation of a datastream's destination. Counts and limits are compared by identity: the
    same object means no change."""

    datastream: Datastream
    source_counts: Mapping[str, int]
    destination_counts: Mapping[str, int] | None
    limits: MatchLimits

    def is_same(self, other: PreparationQuery) -> bool:
        return (
            (self.datastream is other.datastream or self.datastream == other.datastream)
            and self.source_counts is other.source_counts
            and self.destination_counts is other.destination_counts
            and self.limits is other.limits
        )


@dataclass(frozen=True, slots=True)
class PreparationSteps:
    """Progress of a preparation that needs several steps. Each step creates or extends at most as many topics
    as one request, so that other datastreams with the same destination need not wait.

    `remaining`: number of topics for later steps. `treated`: destination topics that were created, or whose
    source topic no longer exists. `adjustments`: a sentence for each adjusted setting of created topics.
    `rejected`: shortfalls of the topics that the destination has rejected, or whose settings the source does
    not show, by source topic.
    """

    remaining: int = 0
    treated: frozenset[str] = frozenset()
    adjustments: tuple[str, ...] = ()
    rejected: Mapping[str, Shortfall] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Preparation:
    """Result of preparing the destination topics of a datastream.

    `wanted`: required partition counts at the destination. `present`: existing partition counts at the
    destination. `short`: source topics whose destination topic has too few partitions.
    """

    question: PreparationQuery
    wanted: Mapping[str, int]
    look_again_at: float
    drift: tuple[str, ...] = ()
    short: Mapping[str, Shortfall] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)
    steps: PreparationSteps = PreparationSteps()

    def steps_for(self, datastream: Datastream) -> PreparationSteps:
        """Return the progress of an unfinished preparation of the same datastream, otherwise no progress."""
        is_same = replace(self.question.datastream, status=datastream.status) == datastream
        return self.steps if is_same and self.steps.remaining else PreparationSteps()

    def is_still_valid(self, question: PreparationQuery, wanted: Mapping[str, int]) -> bool:
        """Return whether the preparation is still valid: destination and requirements are unchanged."""
        before, now = self.question.datastream, question.datastream
        is_same = replace(before, status=now.status) == now and self.wanted == wanted
        return is_same and self._is_there(question.destination_counts)

    def _is_there(self, present: Mapping[str, int] | None) -> bool:
        """Return whether the destination topics still exist, with at least the known partition counts."""
        if present is None or present is self.question.destination_counts:
            return True
        naming = self.question.datastream.naming
        short = {naming.destination(topic): shortfall.present for topic, shortfall in self.short.items()}
        return all(
            present.get(name, 0) == short[name] if name in short else present.get(name, 0) >= count
            for name, count in self.wanted.items()
        )


class Preparations:
    """Latest preparation step of each datastream. Used by one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.latest: dict[DatastreamName, Preparation] = {}
        self._settled_at: dict[DatastreamName, float] = {}

    def begin(self, name: DatastreamName) -> None:
        """Mark a preparation step of the datastream as running."""
        self._settled_at[name] = math.inf

    def note(self, name: DatastreamName, prepared: Preparation) -> None:
        """Store the result of a preparation step of the datastream."""
        self.latest[name] = prepared
        if not prepared.steps.remaining:
            self._settled_at[name] = self._clock.monotonic() + _SETTLING_SECONDS

    def forget_all_but(self, names: Set[DatastreamName]) -> None:
        """Drop the preparations of datastreams that no longer exist."""
        for known in (self.latest, self._settled_at):
            for name in known.keys() - names:
                del known[name]

    def remaining(self, datastream: Datastream) -> int:
        """Return how many destination topics must still be created or extended; 0 if unknown."""
        known = self.latest.get(datastream.name)
        return 0 if known is None else known.steps.remaining

    def is_running(self, datastream: Datastream) -> bool:
        """Return whether destination topics are or were just being created, so that lanes may wait."""
        return self._clock.monotonic() < self._settled_at.get(datastream.name, -math.inf)


class _Results(NamedTuple):
    """Results of one step. Changes without a result are retried. `rejected`: reason for each topic."""

    done: tuple[TopicWork, ...]
    adjustments: tuple[str, ...]
    rejected: Mapping[str, str]


def prepare(
    preparation: Preparation,
    mirrored: Mapping[str, int],
    written: Callable[[], Collection[str]],
    rules: TopicRules,
    source: TopicAdmin,
    destination: TopicAdmin,
) -> tuple[tuple[TopicWork, ...], Preparation]:
    """Create or extend destination topics of a datastream. Return the changes, and the resulting state.

    `mirrored`: partition counts of source topics. A rejected topic counts as a topic with too few partitions.
    Raises the errors of all other requests.
    """
    datastream, steps = preparation.question.datastream, preparation.steps
    names = {topic: datastream.naming.destination(topic) for topic in mirrored}
    rules.bound.require(datastream.destination, destination.cluster_id())
    present = destination.list_topics()
    adopts = rules.adopts(datastream)
    created, adopted = rules.claims.claimed_by(datastream, written, present, mirrored if adopts else ())
    short = dict(steps.rejected) | shortfalls(
        datastream, mirrored, present, created, rules.most_partitions, adopts=adopts, adopted=adopted
    )
    others = {topic: count for topic, count in mirrored.items() if names[topic] not in steps.treated}
    lacking = {
        topic: count
        for topic, count in sorted(others.items())
        if topic not in short and present.get(names[topic], 0) < count
    }
    part = dict(islice(lacking.items(), first_request(lacking.values())))
    is_last = len(part) == len(lacking)
    compared = [topic for topic in others if is_last and names[topic] in present]
    described = sorted({*part, *compared})
    descriptions = source.describe(described) if described else {}
    is_new = any(names[topic] not in present for topic in part)
    there = _any_topic(destination, present, preparation.wanted) if is_new else None
    work = topic_work(datastream, part, present, descriptions, there)
    if new_topics := [topic.name for topic in _creatable(work)]:
        rules.claims.note_creation(datastream.group, datastream.destination, new_topics)
    results = _carried_out(work, destination)
    after = _after(steps, {topic: names[topic] for topic in part}, work, results, present)
    differing = _drift_of(datastream, compared, descriptions, destination)
    return results.done, replace(
        preparation,
        drift=tuple(sorted({*after.adjustments, *differing})),
        short={**short, **after.rejected},
        present={**present, **{item.topic.name: item.topic.partitions for item in results.done}},
        look_again_at=preparation.look_again_at - _SOONER_SECONDS * bool(after.rejected),
        steps=replace(after, remaining=after.remaining + len(lacking) - len(part)),
    )


def _after(
    steps: PreparationSteps,
    part: Mapping[str, str],
    work: Sequence[TopicWork],
    results: _Results,
    present: Mapping[str, int],
) -> PreparationSteps:
    """Return the progress after one step. `part`: maps the step's source topics to destination topics."""
    rejected = {
        topic: Shortfall(present.get(name, 0), results.rejected[name], present.get(name, 0))
        for topic, name in part.items()
        if name in results.rejected
    }
    without_source = {*part.values()} - {item.topic.name for item in work}
    created = {item.topic.name for item in results.done if item.create}
    return PreparationSteps(
        len(work) - len(results.done) - len(rejected),
        steps.treated | created | without_source,
        steps.adjustments + results.adjustments,
        {**steps.rejected, **rejected},
    )


def _any_topic(
    destination: TopicAdmin, present: Collection[str], preferred: Collection[str]
) -> TopicDescription | None:
    """Return the description of any topic of the destination, which contains the broker defaults. Return None
    if the settings of a few topics are unreadable."""
    names = nsmallest(_SAMPLED_TOPICS, present, key=lambda name: (name not in preferred, name))
    found = destination.describe(names).values() if names else ()
    return next((topic for topic in found if topic.settings_error is None), None)


def _drift_of(
    datastream: Datastream,
    topics: Iterable[str],
    descriptions: Mapping[str, TopicDescription],
    destination: TopicAdmin,
) -> list[str]:
    """Return a sentence for each setting of an existing destination topic that is unknown or differs from
    that of a new topic. `topics`: source topics. `descriptions`: maps source topics to descriptions."""
    naming, excluded = datastream.naming, datastream.excluded_settings
    wanted = {
        naming.destination(topic): destination_description(descriptions[topic], topic, excluded)
        for topic in topics
        if topic in descriptions
    }
    found = destination.describe(sorted(wanted)) if wanted else {}
    return [text for name, actual in found.items() for text in drift(wanted[name], actual, excluded)]


def _carried_out(work: Sequence[TopicWork], destination: TopicAdmin) -> _Results:
    """Create and extend destination topics. Raises Unreachable if all of them need another attempt."""
    results = {item.topic.name: TopicCreation(item.topic.settings_error) for item in work if item.create}
    if new := _creatable(work):
        results |= destination.create_each(new)
    if grown := {item.topic.name: item.topic.partitions for item in work if not item.create}:
        try:
            results |= destination.grow_each(grown)
        except HeadraceError as error:  # the results of the new topics remain
            results |= dict.fromkeys(grown, TopicCreation(error))
    failures = {name: result.error for name, result in results.items() if result.error is not None}
    passing = [error for error in failures.values() if error.retriable]
    if passing and len(passing) == len(results):
        raise passing[0]
    return _Results(
        tuple(item for item in work if item.topic.name in results.keys() - failures.keys()),
        tuple(sentence for result in results.values() for sentence in result.adjustments),
        {name: reason_of(error) for name, error in failures.items() if not error.retriable},
    )


def _creatable(work: Sequence[TopicWork]) -> list[TopicDescription]:
    """Return the topics to create. Omits topics whose source settings are unknown, because copies with other
    settings could lose records."""
    return [item.topic for item in work if item.create and item.topic.settings_error is None]


def topics_at(cluster: ClusterRef) -> str:
    """Return the name of the line (see `BackgroundCalls`) that creates and extends topics of the cluster."""
    return f"topics at {cluster}"
