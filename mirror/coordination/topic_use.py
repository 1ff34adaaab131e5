"""Decides whether a topic is unused. Pure.

A check records the state of a topic at one time. The history of a topic summarises all checks: the time of
the first check, the start of gapless observation, and the time of the last write. A topic is unused if there
is no reason to keep it. An unknown fact is such a reason. Record timestamps do not count, because a topic
that was filled today may have records from last year.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from mirror.model.datastreams.datastream import Datastream
from mirror.model.identifiers import ClusterRef, DatastreamName
from mirror.model.topics import DEAD_LETTER_SUFFIX, OWN_PREFIX

DAY_MS: Final = 86_400_000
LONGEST_GAP_MS: Final = 3 * DAY_MS
"""Maximum time between two checks, so that every reader is detected.

By default, Kafka keeps the committed offsets of a group without members for seven days.
"""
_SERVICE_PREFIX: Final = "_"
"""Prefix of topics that belong to Kafka or to tools, such as `__consumer_offsets` and `_schemas`."""


class TopicReader(NamedTuple):
    """A consumer group that reads a topic.

    `has_members`: the group is active. `has_offsets`: the group has committed offsets for the topic.
    """

    group: str
    has_members: bool
    has_offsets: bool


@dataclass(frozen=True, slots=True)
class TopicObservation:
    """Facts about a topic, as found by one check.

    `topic_id`: hexadecimal, empty if the cluster has no topic ids. `ends`: fingerprint of the end offsets,
    empty if an end offset is unknown. `records`, `bytes`: None if unknown; `records` is an upper bound.
    `readers`: consumer groups, except groups of the mirror. `internal`: Kafka marks the topic as internal.
    `is_compacted`: None if unknown.
    """

    topic_id: str
    partitions: int
    ends: str
    records: int | None = None
    bytes: int | None = None
    readers: tuple[TopicReader, ...] = ()
    internal: bool = False
    is_compacted: bool | None = False


@dataclass(frozen=True, slots=True)
class ClusterObservation:
    """Facts about all topics of a cluster, as found by one check.

    `unknown_groups`: consumer groups whose topics are unknown.
    """

    cluster_id: str
    topics: Mapping[str, TopicObservation]
    unknown_groups: tuple[str, ...] = ()


class TopicHistory(NamedTuple):
    """Summary of all checks of a topic. Times are in epoch ms.

    `first_ms`: first check. `watched_ms`: first check after the last gap. `seen_ms`: last check. `quiet_ms`:
    first check with the current end offsets. `read_ms`: last check with a reader, 0 if there was none.
    """

    topic_id: str
    first_ms: int
    watched_ms: int
    seen_ms: int
    quiet_ms: int
    read_ms: int
    ends: str


def updated_history(before: TopicHistory | None, observation: TopicObservation, now_ms: int) -> TopicHistory:
    """Return the summary after another check of a topic. A topic with another id is a new topic."""
    if before is None or before.topic_id != observation.topic_id:
        return TopicHistory(
            observation.topic_id,
            now_ms,
            now_ms,
            now_ms,
            now_ms,
            now_ms if observation.readers else 0,
            observation.ends,
        )
    is_late = now_ms - before.seen_ms > LONGEST_GAP_MS or now_ms < before.seen_ms  # or the clock went back
    is_changed = not observation.ends or observation.ends != before.ends
    return before._replace(
        watched_ms=now_ms if is_late else before.watched_ms,
        seen_ms=now_ms,
        quiet_ms=now_ms if is_changed else before.quiet_ms,
        read_ms=now_ms if observation.readers else before.read_ms,
        ends=observation.ends,
    )


class KeepReason(StrEnum):
    """Reason to keep a topic instead of retiring it."""

    INTERNAL = "internal"
    ALLOW_LIST = "allow-list"
    SELECTED = "selected"
    YOUNG = "young"
    NOT_WATCHED = "not-watched"
    INFLOW = "inflow"
    READERS = "readers"
    UNKNOWN_READERS = "unknown-readers"
    UNKNOWN_OFFSETS = "unknown-offsets"
    COMPACTED = "compacted"


class TopicSelector(NamedTuple):
    """A datastream that reads or writes a topic.

    `is_only`: the datastream selects only this topic. `is_halted`: the datastream is paused or stopped.
    """

    datastream: DatastreamName
    owner: str
    is_only: bool
    is_halted: bool = False


@dataclass(frozen=True, slots=True)
class UnusedRules:
    """Rules that decide whether a topic is unused.

    `days`: minimum age of a topic, and minimum time without use. `keep`: names of topics to keep, where `*`
    matches any text. `own`: topics of this service.
    """

    days: int = 60
    keep: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()

    def is_internal(self, topic: str) -> bool:
        """Return whether a topic belongs to Kafka, to its tools or to Headrace."""
        is_of_service = topic.startswith((_SERVICE_PREFIX, OWN_PREFIX)) or topic.endswith(DEAD_LETTER_SUFFIX)
        return is_of_service or topic in self.own


@dataclass(frozen=True, slots=True)
class TopicEvidence:
    """All facts that decide whether a topic is unused.

    `history`: None if the topic was never checked before. `reasons`: reasons to keep the topic, empty if it
    is unused.
    """

    cluster: ClusterRef
    topic: str
    observation: TopicObservation
    history: TopicHistory | None
    selectors: tuple[TopicSelector, ...]
    unknown_groups: tuple[str, ...]
    reasons: tuple[KeepReason, ...]

    @property
    def is_unused(self) -> bool:
        """Return whether there is no reason to keep the topic."""
        return not self.reasons


def judged(evidence: TopicEvidence, rules: UnusedRules, now_ms: int) -> TopicEvidence:
    """Return the evidence completed with the reasons to keep the topic."""
    return replace(evidence, reasons=tuple(_reasons(evidence, rules, now_ms)))


def _reasons(evidence: TopicEvidence, rules: UnusedRules, now_ms: int) -> Sequence[KeepReason]:
    observation, seen, topic = evidence.observation, evidence.history, evidence.topic
    least_ms = now_ms - rules.days * DAY_MS
    is_seen = seen is not None and seen.topic_id == observation.topic_id
    first_ms, watched_ms, quiet_ms, read_ms = (
        (seen.first_ms, seen.watched_ms, seen.quiet_ms, seen.read_ms)
        if seen is not None and is_seen
        else (now_ms + 1, now_ms + 1, now_ms + 1, 0)
    )
    is_interrupted = seen is not None and now_ms - seen.seen_ms > LONGEST_GAP_MS
    is_changed = seen is not None and is_seen and observation.ends != seen.ends
    found = {
        KeepReason.INTERNAL: observation.internal or rules.is_internal(topic),
        KeepReason.ALLOW_LIST: any(fnmatchcase(topic, pattern) for pattern in rules.keep),
        KeepReason.SELECTED: not all(selector.is_only for selector in evidence.selectors),
        KeepReason.YOUNG: first_ms > least_ms,
        KeepReason.NOT_WATCHED: watched_ms > least_ms or is_interrupted,
        KeepReason.INFLOW: quiet_ms > least_ms or is_changed,
        KeepReason.READERS: bool(observation.readers) or (bool(read_ms) and read_ms > least_ms),
        KeepReason.UNKNOWN_READERS: bool(evidence.unknown_groups),
        KeepReason.UNKNOWN_OFFSETS: not observation.ends,
        KeepReason.COMPACTED: observation.is_compacted is not False,
    }
    return [reason for reason, applies in found.items() if applies]


def selectors_of(
    topic: str,
    datastreams: Collection[Datastream],
    aliases: Collection[ClusterRef],
    topics_of: Mapping[ClusterRef, Collection[str] | None],
) -> tuple[TopicSelector, ...]:
    """Return the datastreams that read or write a topic.

    `aliases`: aliases that may refer to the cluster of the topic. `topics_of`: callback that returns the
    topics of a source cluster, None if unknown.
    """
    found = []
    for datastream in datastreams:
        sources = {topic} if datastream.source in aliases else set[str]()
        if datastream.destination in aliases and (origin := datastream.naming.source(topic)) is not None:
            sources.add(origin)
        for name in sorted(filter(datastream.selection.matches, sources)):
            present = topics_of.get(datastream.source)
            is_only = present is not None and _takes_only(datastream, name, present)
            found.append(
                TopicSelector(datastream.name, datastream.owner, is_only, datastream.status.is_halted)
            )
    return tuple(found)


def _takes_only(datastream: Datastream, topic: str, present: Collection[str]) -> bool:
    selection = datastream.selection
    is_name = selection.names == {topic} and "|" not in selection.include
    return is_name and {*selection.choose(present)} - {selection.canary} <= {topic}
