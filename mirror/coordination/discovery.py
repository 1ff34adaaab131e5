"""Which destination topics must be made or grown before partitions are copied. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mirror.model.datastream import Datastream
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription

CARRIED_SETTINGS: Final = frozenset(
    {
        "cleanup.policy",
        "delete.retention.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "max.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.ms",
    }
)
"""Topic settings that are carried over at creation. Not carried: what belongs to a cluster's own
layout (replicas, throttles, min.insync.replicas), `compression.type` and `message.timestamp.type`
(forced below, so that batches arrive as they were)."""

FORCED_SETTINGS: Final = {"compression.type": "producer", "message.timestamp.type": "CreateTime"}


@dataclass(frozen=True, slots=True)
class TopicWork:
    """One change at a destination: create the topic, or raise its partition count."""

    cluster: ClusterRef
    topic: TopicDescription
    create: bool


def destination_description(source: TopicDescription, name: str) -> TopicDescription:
    """A destination topic like its source: same partition count, carried settings."""
    settings = {key: value for key, value in source.settings.items() if key in CARRIED_SETTINGS}
    return TopicDescription(name, source.partitions, settings={**settings, **FORCED_SETTINGS})


def drift(wanted: TopicDescription, present: TopicDescription) -> list[str]:
    """Settings of a destination topic that are not as they would be made today, a sentence each."""
    keys = (CARRIED_SETTINGS & (wanted.settings.keys() | present.settings.keys())) | (
        wanted.settings.keys() - CARRIED_SETTINGS
    )
    return [
        f"{present.name}: {key} is {present.settings.get(key, 'not set')}, the source would have"
        f" {wanted.settings.get(key, 'it not set')}"
        for key in sorted(keys)
        if present.settings.get(key) != wanted.settings.get(key)
    ]


def topic_work(
    datastream: Datastream,
    mirrored: Mapping[str, int],
    destination_counts: Mapping[str, int],
    descriptions: Mapping[str, TopicDescription],
) -> tuple[TopicWork, ...]:
    """What to do at the destination of one datastream, by topic name.

    `mirrored`: partition counts of its source topics. `descriptions`: of source topics; only those that are
    missing at the destination are needed.
    """
    work = []
    for topic, partitions in sorted(mirrored.items()):
        name = datastream.naming.destination(topic)
        present = destination_counts.get(name)
        if present is None and topic in descriptions:
            wanted = destination_description(descriptions[topic], name)
            work.append(TopicWork(datastream.destination, wanted, create=True))
        elif present is not None and present < partitions:
            grown = TopicDescription(name, partitions)
            work.append(TopicWork(datastream.destination, grown, create=False))
    return tuple(work)
