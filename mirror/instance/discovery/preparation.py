"""Makes and grows the destination topics of one datastream, each by itself."""

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
from mirror.coordination.matching import Limits, Waiting
from mirror.coordination.stores.cluster_ids import BoundClusters
from mirror.coordination.stores.problems import reason_of
from mirror.errors import HeadraceError
from mirror.instance.discovery.claims import TopicClaims
from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.model.topics import TopicDescription
from mirror.ports import TopicAdmin

Waits = Mapping[DatastreamName, Mapping[str, Waiting]]
"""Topics that datastreams are not to copy yet, or not all of."""
Selected = tuple[Datastream, Mapping[str, int]]
"""A datastream with the partition counts of the topics that it selects."""
LOOK_AGAIN_SECONDS: Final = 600.0
_RETRY_SECONDS: Final = 60.0
"""Interval between attempts at topics that the destination refuses."""


@dataclass(frozen=True, slots=True)
class TopicRules:
    """What may be done at destinations. `bound`: which clusters may be read and written;
    `claims`: which topics are whose; `most_partitions`: of a topic that is made or grown; `own`: topics that
    Headrace writes for itself under names that were configured;
    `adopts`: whether a datastream may write into topics that were there before it; `objection`: what of a
    stored definition would be refused today; `refusal`: why it is not mirrored at all, empty where it is;
    `postponed`: what of selected topics, the older datastreams first, is not to be copied yet, beside the
    partitions that groups copy; None: everything is."""

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
    """What a destination is prepared for. Counts and limits are compared by identity: the same object means
    that nothing has changed."""

    datastream: Datastream
    source_counts: Mapping[str, int]
    destination_counts: Mapping[str, int] | None
    limits: Limits

    def is_same(self, other: PreparationQuery) -> bool:
        return (
            (self.datastream is other.datastream or self.datastream == other.datastream)
            and self.source_counts is other.source_counts
            and self.destination_counts is other.destination_counts
            and self.limits is other.limits
        )


@dataclass(frozen=True, slots=True)
class Preparation:
    """A datastream's destination as it was left. `wanted`: partition counts of its topics there; `present`:
    of all topics there; `short`: by source topic."""

    question: PreparationQuery
    wanted: Mapping[str, int]
    look_again_at: float
    drift: tuple[str, ...] = ()
    short: Mapping[str, Shortfall] = field(default_factory=dict)
    present: Mapping[str, int] = field(default_factory=dict)

    def needs_nothing_for(self, question: PreparationQuery, wanted: Mapping[str, int]) -> bool:
        """Whether the destination is as it was left, and that is what is wanted now, in whatever state."""
        before, now = self.question.datastream, question.datastream
        is_same = replace(before, status=now.status) == now and self.wanted == wanted
        return is_same and self._is_there(question.destination_counts)

    def _is_there(self, present: Mapping[str, int] | None) -> bool:
        """Topics may have been deleted there, or grown by hand."""
        if present is None or present is self.question.destination_counts:
            return True
        naming = self.question.datastream.naming
        short = {naming.destination(topic): one.present for topic, one in self.short.items()}
        return all(
            present.get(name, 0) == short[name] if name in short else present.get(name, 0) >= count
            for name, count in self.wanted.items()
        )


def prepare(
    asked: Preparation,
    mirrored: Mapping[str, int],
    written: Callable[[], Collection[str]],
    rules: TopicRules,
    source: TopicAdmin,
    destination: TopicAdmin,
) -> tuple[tuple[TopicWork, ...], Preparation]:
    """Return the finished work and the state of the destination; a topic that it refuses is a shortfall.

    `mirrored`: partition counts of source topics. Raises what a cluster answers to the other requests.
    """
    datastream = asked.question.datastream
    rules.bound.require(datastream.destination, destination.cluster_id())
    present = destination.list_topics()
    descriptions = source.describe(sorted(mirrored)) if mirrored else {}
    adopts = rules.adopts(datastream)
    made = rules.claims.made_for(datastream, written, present)
    adopted = rules.claims.adopted_for(datastream, written, present.keys() - made, mirrored if adopts else ())
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
        datastream.naming.destination(topic): destination_description(one, one.name, excluded)
        for topic, one in descriptions.items()
        if datastream.naming.destination(topic) in present
    }
    found = destination.describe(sorted(wanted)) if wanted else {}
    differing += [sentence for name, one in found.items() for sentence in drift(wanted[name], one, excluded)]
    left = {**present, **{item.topic.name: item.topic.partitions for item in done}}
    again = asked.look_again_at - (LOOK_AGAIN_SECONDS - _RETRY_SECONDS) * (len(done) < len(work))
    return done, replace(
        asked, drift=tuple(sorted(differing)), short=short, present=left, look_again_at=again
    )


def _any_topic(destination: TopicAdmin, present: Collection[str], is_needed: bool) -> TopicDescription | None:
    """Describe one of the topics of the destination, which shows the defaults of its brokers."""
    names = [min(present)] if is_needed and present else []
    return next(iter(destination.describe(names).values()), None) if names else None


def _carried_out(item: TopicWork, destination: TopicAdmin, adjustments: list[str]) -> str:
    """Create or grow one topic; return why the destination refuses it. Raises Unreachable."""
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
