"""Decides which destination topics to create or extend. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from mirror.model.datastreams.datastream import Datastream
from mirror.model.datastreams.policy import (
    ADOPT_EXISTING,
    CARRIED_SETTINGS,
    FORCED_SETTINGS,
    GROW_EXISTING,
    KEEPING_SETTINGS,
)
from mirror.model.identifiers import ClusterRef
from mirror.model.topics import TopicDescription
from mirror.wording import counted


@dataclass(frozen=True, slots=True)
class TopicWork:
    """A required change of a destination topic: create it, or increase its partition count."""

    cluster: ClusterRef
    topic: TopicDescription
    create: bool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Reason why Headrace must not create or extend a destination topic that has too few partitions.

    `partitions`: number of source partitions that are copied. `present`: partition count of the destination
    topic, 0 if it does not exist.
    """

    partitions: int
    reason: str
    present: int


def destination_description(
    source: TopicDescription, name: str, excluded: Collection[str] = (), there: TopicDescription | None = None
) -> TopicDescription:
    """Return the description of a destination topic to create.

    The topic gets the partition count and the settings of the source topic, without the excluded settings.
    Broker defaults of the source are also set if the defaults of the destination differ or are unknown.
    `there`: any existing topic of the destination, whose description contains the broker defaults; None if
    there is none.
    """
    carried = CARRIED_SETTINGS - frozenset(excluded)
    settings = {key: value for key, value in source.settings.items() if key in carried}
    supplied = {key: value for key, value in source.defaults.items() if key in carried & KEEPING_SETTINGS}
    settings |= {key: value for key, value in supplied.items() if _differs(key, value, there)}
    settings |= FORCED_SETTINGS
    return TopicDescription(name, source.partitions, settings, supplied, source.settings_error)


def _differs(key: str, value: str, there: TopicDescription | None) -> bool:
    """Return whether the destination's default of a topic setting differs from the value or is unknown."""
    if there is None or there.in_force(key) is None:
        return not key.startswith("message.timestamp.")  # missing in brokers before 3.6
    return there.defaults.get(key) != value


def drift(wanted: TopicDescription, present: TopicDescription, excluded: Collection[str] = ()) -> list[str]:
    """Return a message for each setting of a destination topic that differs from that of a new copy, or a
    single message if the settings are unknown."""
    unknown = wanted.settings_error or present.settings_error
    if unknown is not None:
        return [f"{present.name}: settings not compared: {unknown}"]
    carried = CARRIED_SETTINGS - frozenset(excluded)
    keys = (carried & (wanted.settings.keys() | present.settings.keys())) | (
        wanted.settings.keys() - CARRIED_SETTINGS
    )
    keys |= wanted.defaults.keys() & present.defaults.keys()
    return [
        f"{present.name}: {key} is {present.in_force(key) or 'not set'}, expected"
        f" {wanted.in_force(key) or 'not set'}"
        for key in sorted(keys)
        if present.in_force(key) != wanted.in_force(key)
    ]


def topic_work(
    datastream: Datastream,
    mirrored: Mapping[str, int],
    destination_counts: Mapping[str, int],
    descriptions: Mapping[str, TopicDescription],
    there: TopicDescription | None = None,
) -> tuple[TopicWork, ...]:
    """Return the topics to create or extend for one datastream, sorted by name.

    `mirrored`: partition counts of the source topics, without the topics returned by `shortfalls`.
    `descriptions`: source topics that are missing at the destination. `there`: any existing topic of the
    destination, whose description contains the broker defaults.
    """
    work = []
    for topic, partitions in sorted(mirrored.items()):
        name = datastream.naming.destination(topic)
        present = destination_counts.get(name)
        if present is None and topic in descriptions:
            excluded = datastream.excluded_settings
            wanted = destination_description(descriptions[topic], name, excluded, there)
            work.append(TopicWork(datastream.destination, wanted, create=True))
        elif present is not None and present < partitions:
            grown = TopicDescription(name, partitions)
            work.append(TopicWork(datastream.destination, grown, create=False))
    return tuple(work)


def shortfalls(
    datastream: Datastream,
    mirrored: Mapping[str, int],
    destination_counts: Mapping[str, int],
    created: Collection[str],
    most_partitions: int,
    *,
    adopts: bool = True,
    adopted: Collection[str] = (),
) -> dict[str, Shortfall]:
    """Map each source topic to the reason why its destination topic must not be written or extended.

    The source may be untrusted, and a destination topic may belong to another application. `created`:
    destination topics that Headrace created. `adopts`: whether the datastream may write to existing topics.
    `adopted`: existing topics to which the datastream already writes.
    """
    found = {}
    for topic, partitions in mirrored.items():
        name = datastream.naming.destination(topic)
        present = destination_counts.get(name, 0)
        if present and name not in created and not adopts and name not in adopted:
            reason = (
                f"destination topic {name} was not created for this datastream: set {ADOPT_EXISTING} = true"
                " (requires that you are listed in the cluster's adopters), or give its copies another name"
            )
            found[topic] = Shortfall(0, reason, present)
            continue
        if present >= partitions:
            continue
        if partitions > most_partitions:
            reason = (
                f"the source topic has {counted(partitions, 'partition')}, destination topic {name} has"
                f" {present}, and the limit is mirror.leader.max_partitions_per_topic = {most_partitions}"
            )
        elif present and name not in created and not datastream.grows_existing:
            reason = (
                f"the source topic has {counted(partitions, 'partition')}, destination topic {name} has"
                f" {present} and was not created for this datastream: add partitions to it, or set"
                f" {GROW_EXISTING} = true"
            )
        else:
            continue
        found[topic] = Shortfall(present, reason, present)
    return found
