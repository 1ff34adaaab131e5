"""Creates and extends the destination topics of one datastream."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from mirror.coordination.discovery import (
    Shortfall,
    TopicWork,
    destination_description,
    drift,
    shortfalls,
    topic_work,
)
from mirror.coordination.matching import IncompleteTopic, MatchLimits
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.coordination.stores.problems import reason_of
from mirror.errors import HeadraceError
from mirror.instance.discovery.claims import TopicClaims
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicDescription
from mirror.ports import TopicAdmin

Waits = Mapping[DatastreamName, Mapping[str, IncompleteTopic]]
"""Topics that datastreams must not copy yet, or only partly."""
Selected = tuple[Datastream, Mapping[str, int]]
"""A datastream with the partition counts of its selected topics."""
LOOK_AGAIN_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 60.0
"""Seconds between attempts to create or extend a topic that the destination rejects."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """Rules for changes at destinations.

    `bound`: bound cluster ids. `claims`: records of created and adopted topics. `most_partitions`: maximum
    partition count of a created or extended topic. `own`: internal topics of Headrace in the settings.
    `adopts`: returns whether a datastream may write to existing topics. `objection`: returns why a stored
    definition would now be rejected. `refusal`: returns why a datastream is not mirrored, or an empty string.
    `postponed`: returns the partitions that must not be copied yet because of quotas; None without quotas.
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
    """Input of the preparation of a destination.

    Counts and limits are compared by identity. The same object means no change.
    """

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
class Preparation:
    """State of a datastream's destination after preparation.

    `wanted`: required partition counts at the destination. `present`: existing partition counts at the
    destination. `short`: source topics whose destination topic has too few partitions.
    """

    question: PreparationQuery
    wanted: Mapping[str, int]
    look_again_at: float
    drift: tuple[str, ...] = ()
    short: Mapping[str, Shortfall] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)

    def is_still_valid(self, question: PreparationQuery, wanted: Mapping[str, int]) -> bool:
        """Return whether the destination is unchanged and matches the desired state."""
        before, now = self.question.datastream, question.datastream
        is_same = replace(before, status=now.status) == now and self.wanted == wanted
        return is_same and self._is_there(question.destination_counts)

    def _is_there(self, present: Mapping[str, int] | None) -> bool:
        """Return whether no topic was deleted or extended at the destination since the preparation."""
        if present is None or present is self.question.destination_counts:
            return True
        naming = self.question.datastream.naming
        short = {naming.destination(topic): shortfall.present for topic, shortfall in self.short.items()}
        return all(
            present.get(name, 0) == short[name] if name in short else present.get(name, 0) >= count
            for name, count in self.wanted.items()
        )


def prepare(
    preparation: Preparation,
    mirrored: Mapping[str, int],
    written: Callable[[], Collection[str]],
    rules: TopicRules,
    source: TopicAdmin,
    destination: TopicAdmin,
) -> tuple[tuple[TopicWork, ...], Preparation]:
    """Create and extend topics. Return the changes, and the new state of the destination.

    `mirrored`: partition counts of source topics. A rejected topic counts as a topic with too few partitions.
    Raises the errors of all other requests.
    """
    datastream = preparation.question.datastream
    rules.bound.require(datastream.destination, destination.cluster_id())
    present = destination.list_topics()
    descriptions = source.describe(sorted(mirrored)) if mirrored else {}
    adopts = rules.adopts(datastream)
    made, adopted = rules.claims.claimed_by(datastream, written, present, mirrored if adopts else ())
    short = shortfalls(
        datastream, mirrored, present, made, rules.most_partitions, adopts=adopts, adopted=adopted
    )
    whole = {topic: count for topic, count in mirrored.items() if topic not in short}
    is_new = any(datastream.naming.destination(topic) not in present for topic in whole)
    work = topic_work(datastream, whole, present, descriptions, _any_topic(destination, present, is_new))
    made_now = [item.topic.name for item in work if item.create]
    if made_now:
        rules.claims.note_made(datastream.group, datastream.destination, made_now)
    differing: list[str] = []
    outcomes = [(item, _carried_out(item, destination, differing)) for item in work]
    done = tuple(item for item, reason in outcomes if not reason)
    for item, reason in outcomes:
        topic = datastream.naming.source(item.topic.name)
        if reason and topic is not None:
            count = present.get(item.topic.name, 0)
            short[topic] = Shortfall(count, reason, count)
    excluded = datastream.excluded_settings
    wanted = {
        datastream.naming.destination(topic): destination_description(description, description.name, excluded)
        for topic, description in descriptions.items()
        if datastream.naming.destination(topic) in present
    }
    found = destination.describe(sorted(wanted)) if wanted else {}
    differing += [text for name, actual in found.items() for text in drift(wanted[name], actual, excluded)]
    left = {**present, **{item.topic.name: item.topic.partitions for item in done}}
    again = preparation.look_again_at - (LOOK_AGAIN_SECONDS - _RETRY_SECONDS) * (len(done) < len(work))
    return done, replace(
        preparation, drift=tuple(sorted(differing)), short=short, present=left, look_again_at=again
    )


def _any_topic(destination: TopicAdmin, present: Collection[str], is_needed: bool) -> TopicDescription | None:
    """Return the description of any topic of the destination, which contains the broker defaults."""
    names = [min(present)] if is_needed and present else []
    return next(iter(destination.describe(names).values()), None) if names else None


def _carried_out(item: TopicWork, destination: TopicAdmin, adjustments: list[str]) -> str:
    """Create or extend one topic. Raises Unreachable.

    Returns the reason if the destination rejects the topic, otherwise an empty string.
    """
    try:
        if item.create:
            adjustments += destination.create(item.topic)
        else:
            destination.grow(item.topic.name, item.topic.partitions)
    except HeadraceError as error:
        if error.retriable:
            raise
        return reason_of(error)
    return ""
