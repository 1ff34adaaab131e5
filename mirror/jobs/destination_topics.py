"""Creates the destination topics of a copy, and adds partitions to them.

New topics have the settings of their source topics. Settings of existing topics are never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.client.administration.creation import TopicCreations
from mirror.client.administration.description import describe_topics
from mirror.client.administration.extension import TopicExtensions
from mirror.client.cluster import Cluster
from mirror.coordination.discovery import destination_description, drift
from mirror.errors import HeadraceError, TopicMissing, Unreachable
from mirror.model.topics import TopicDescription, TopicNaming

_IGNORE: Final = "pass --ignore-settings to create the topic without the settings of the source"
_SETTLE_SECONDS: Final = 30.0
_SETTLE_SECONDS_A_PARTITION: Final = 0.02
"""Additional seconds to wait for the leader of each new partition. A busy controller needs several
milliseconds for each partition."""


@dataclass(frozen=True)
class CreationRules:
    """Rules for creating topics.

    `known_topic`: an existing topic of the destination, whose description contains the broker defaults.
    `excluded_settings`: source settings that are not inherited. `ignores_settings`: if source settings cannot
    be read, create topics without them.
    """

    replication_factor: int = -1
    known_topic: str = ""
    excluded_settings: frozenset[str] = frozenset()
    ignores_settings: bool = False


@dataclass(frozen=True)
class TopicChanges:
    """Topics created or changed at the destination, and the problems found.

    `drift`: messages about settings of existing topics that differ from the source. `failures`: error of each
    source topic that the destination rejects. `adjusted`: messages about settings that the destination
    rejects. `supplied`: settings of new topics that come from broker defaults of the source. `not_carried`:
    names of source settings that new topics lack, `*` if they could not be read.
    """

    created: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)
    adjusted: list[str] = field(default_factory=list)
    failures: dict[str, HeadraceError] = field(default_factory=dict)
    supplied: dict[str, dict[str, str]] = field(default_factory=dict)
    not_carried: dict[str, list[str]] = field(default_factory=dict)


async def _described(cluster: Cluster, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """Return the descriptions of existing topics with their settings. Raises Unreachable."""
    wanted = sorted(names)
    await cluster.patiently(lambda: cluster.refresh(wanted))
    found = {name: cluster.topics[name] for name in wanted}
    return await describe_topics(
        cluster, {name: len(topic.leaders) for name, topic in found.items() if not topic.error}
    )


async def prepare_destination(
    source: Cluster, target: Cluster, topics: Sequence[str], naming: TopicNaming, rules: CreationRules
) -> TopicChanges:
    """Create missing destination topics and partitions. Topics that the destination rejects are added to the
    failures.

    Raises Unreachable, and Refused if a cluster rejects the request to describe its topics.
    """
    changes = TopicChanges()
    here = await _described(source, topics)
    names = {naming.destination(topic) for topic in topics}
    there = await _described(target, names | {rules.known_topic} - {""})
    readable = {name: found for name, found in there.items() if found.settings_error is None}
    known = readable.get(rules.known_topic) or next(iter(readable.values()), None)
    missing: dict[str, TopicDescription] = {}
    short: dict[str, TopicDescription] = {}
    for topic in topics:
        try:
            if topic not in here:
                raise TopicMissing(f"topic {topic} does not exist on {source.name}")
            name = naming.destination(topic)
            wanted = destination_description(here[topic], name, rules.excluded_settings, known)
            if name not in there:
                _require_settings(wanted.settings_error, rules)
                _note_new(here[topic], wanted, changes)
                missing[topic] = wanted
            else:
                if there[name].partitions < wanted.partitions:
                    short[topic] = wanted
                changes.drift.extend(drift(wanted, there[name], rules.excluded_settings))
        except HeadraceError as error:
            if error.retriable:
                raise
            changes.failures[topic] = error
    creations = TopicCreations(missing.values(), rules.replication_factor)
    await _carry_out(target, creations, missing, changes.created, changes)
    extensions = TopicExtensions({topic.name: topic.partitions for topic in short.values()})
    await _carry_out(target, extensions, short, changes.grown, changes)
    renewed = {*changes.created, *changes.grown}
    partitions = sum(here[topic].partitions for topic in topics if naming.destination(topic) in renewed)
    for name, failure in (await _wait_for(target, renewed, _settle_seconds(partitions))).items():
        changes.failures[naming.source(name) or name] = failure
    return changes


def _require_settings(unknown: HeadraceError | None, rules: CreationRules) -> None:
    """Check that the settings of a topic are readable or may be ignored. Raises the error of reading them."""
    if unknown is not None and not rules.ignores_settings:
        advice = "; or ".join(filter(None, (unknown.advice, _IGNORE)))
        raise type(unknown)(unknown.message, advice=advice) from unknown


def _note_new(source: TopicDescription, wanted: TopicDescription, changes: TopicChanges) -> None:
    """Note which settings of a new topic come from broker defaults of the source, and which it lacks."""
    supplied = wanted.settings.keys() & wanted.defaults.keys()
    if supplied:
        changes.supplied[wanted.name] = {key: wanted.settings[key] for key in sorted(supplied)}
    is_known = source.settings_error is None
    missing = sorted(source.settings.keys() - wanted.settings.keys()) if is_known else ["*"]
    if missing:
        changes.not_carried[wanted.name] = missing


def _settle_seconds(partitions: int) -> float:
    return _SETTLE_SECONDS + _SETTLE_SECONDS_A_PARTITION * partitions


async def _carry_out(
    target: Cluster,
    requests: TopicCreations,
    wanted: Mapping[str, TopicDescription],
    done: list[str],
    changes: TopicChanges,
) -> None:
    """Create or extend destination topics. `wanted`: maps source topics to destination topics. `done`:
    receives destination topics without an error. Raises Unreachable."""
    if not wanted:
        return
    seconds = _settle_seconds(sum(topic.partitions for topic in wanted.values()))
    await target.patiently(lambda: requests.run(target), seconds)
    for topic, description in wanted.items():
        made = requests.results[description.name]
        if made.error is None:
            done.append(description.name)
            changes.adjusted.extend(made.adjustments)
        elif made.error.retriable:
            raise made.error
        else:
            changes.failures[topic] = made.error


async def _wait_for(cluster: Cluster, topics: Collection[str], seconds: float) -> dict[str, HeadraceError]:
    """Wait until every partition of the new topics has a leader. Return an error for each topic with
    leaderless partitions.

    Raises Unreachable if no broker responds.
    """
    waiting: dict[str, HeadraceError] = {}

    async def check() -> None:
        await cluster.refresh(topics)
        waiting.clear()
        for topic in topics:
            known = cluster.topics[topic]
            if not known.is_ready:
                waiting[topic] = Unreachable(f"topic {topic} was created but has no leaders yet")
        if waiting:
            raise next(iter(waiting.values()))

    if topics:
        try:
            await cluster.patiently(check, seconds)
        except Unreachable as error:
            if error not in waiting.values():
                raise
    return waiting
