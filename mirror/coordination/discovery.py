"""Which destination topics must be made or grown before partitions are copied. Pure."""

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
    """One change at a destination: create the topic, or raise its partition count."""

    cluster: ClusterRef
    topic: TopicDescription
    create: bool


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A destination topic that is left as it is, and is not for the whole source topic. `partitions`: how
    many of the source are copied; `present`: how many it has, 0 of one that is not made."""

    partitions: int
    reason: str
    present: int


def destination_description(
    source: TopicDescription,
    name: str,
    excluded: Collection[str] = (),
    there: TopicDescription | None = None,
) -> TopicDescription:
    """A destination topic like its source: same partition count, carried settings but for the excluded.

    `there`: any topic of the destination, whose defaults a new topic would get; None where there is none.
    Defaults of the source's brokers are carried where those of the destination differ or are unknown.
    """
    carried = CARRIED_SETTINGS - frozenset(excluded)
    settings = {key: value for key, value in source.settings.items() if key in carried}
    supplied = {key: value for key, value in source.defaults.items() if key in carried & KEEPING_SETTINGS}
    settings |= {key: value for key, value in supplied.items() if _differs(key, value, there)}
    return TopicDescription(
        name, source.partitions, settings={**settings, **FORCED_SETTINGS}, defaults=supplied
    )


def _differs(key: str, value: str, there: TopicDescription | None) -> bool:
    """Return whether a new topic of the destination would have another value, as far as that is known."""
    if there is None or there.in_force(key) is None:
        return not key.startswith("message.timestamp.")  # which brokers before 3.6 do not have
    return there.defaults.get(key) != value


def drift(wanted: TopicDescription, present: TopicDescription, excluded: Collection[str] = ()) -> list[str]:
    """Settings of a destination topic that are not as they would be made today, a sentence each."""
    carried = CARRIED_SETTINGS - frozenset(excluded)
    keys = (carried & (wanted.settings.keys() | present.settings.keys())) | (
        wanted.settings.keys() - CARRIED_SETTINGS
    )
    keys |= wanted.defaults.keys() & present.defaults.keys()
    return [
        f"{present.name}: {key} is {present.in_force(key) or 'not set'}, the source would have"
        f" {wanted.in_force(key) or 'it not set'}"
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
    """What to do at the destination of one datastream, by topic name.

    `mirrored`: partition counts of its source topics, without those that `shortfalls` names; `descriptions`:
    of source topics; only those that are missing at the destination are needed. `there`: any topic of the
    destination, for its defaults.
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
    made: Collection[str],
    most_partitions: int,
    *,
    adopts: bool = True,
    adopted: Collection[str] = (),
) -> dict[str, Shortfall]:
    """Source topics, by name, whose destination topic must not get the partitions that it lacks, or must not
    be written: a source may be a stranger's, and what is at the destination somebody else's. `made`:
    destination topics that the service has made; `adopts`: whether it may write into others; `adopted`: those
    of them that it writes already."""
    found = {}
    for topic, partitions in mirrored.items():
        name = datastream.naming.destination(topic)
        present = destination_counts.get(name, 0)
        if present and name not in made and not adopts and name not in adopted:
            reason = (
                f"{name} at the destination was not made for this datastream: let it adopt topics"
                f" ({ADOPT_EXISTING} = true), where you are among the cluster's adopters, or give its copies"
                " another name"
            )
            found[topic] = Shortfall(0, reason, present)
            continue
        if present >= partitions:
            continue
        if partitions > most_partitions:
            reason = (
                f"it has {counted(partitions, 'partition')}, {name} at the "
                f"destination {present}, and no topic is made "
                f"larger than mirror.leader.max_partitions_per_topic = {most_partitions}"
            )
        elif present and name not in made and not datastream.grows_existing:
            reason = (
                f"it has {counted(partitions, 'partition')}, {name} at the "
                f"destination {present}, and that was not made "
                f"for this datastream: add partitions there, or create it with {GROW_EXISTING} = true"
            )
        else:
            continue
        found[topic] = Shortfall(present, reason, present)
    return found
