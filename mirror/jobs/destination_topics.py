"""Destination topics for a copy: made like their sources, grown after them, never changed otherwise."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror.client.cluster import Cluster
from mirror.coordination.discovery import destination_description, drift
from mirror.errors import TopicMissing, Unreachable
from mirror.model.topics import TopicDescription, TopicNaming
from mirror.protocol.codes import Code, error_of
from mirror.protocol.control.topics import create_partitions, create_topic, describe_settings

_AT_ONCE: Final = 200
_MADE: Final = frozenset({Code.NONE, Code.TOPIC_ALREADY_EXISTS, Code.REQUEST_TIMED_OUT})
"""After a time-out the controller goes on; whether the topic comes is seen when its leaders are awaited."""
_SETTLE_SECONDS: Final = 30.0
_SETTLE_SECONDS_A_PARTITION: Final = 0.02
"""A controller on a busy machine takes some milliseconds for each."""


@dataclass(frozen=True)
class TopicChanges:
    """What was done at the destination, and `drift`: settings that differ, as sentences."""

    created: list[str] = field(default_factory=list)
    grown: list[str] = field(default_factory=list)
    drift: list[str] = field(default_factory=list)


async def describe_topics(cluster: Cluster, names: Iterable[str]) -> Mapping[str, TopicDescription]:
    """Topics with the settings that were made on them; missing ones are left out. Raises Unreachable."""
    wanted = sorted(names)
    await cluster.patiently(lambda: cluster.refresh(wanted))
    present = [name for name in wanted if not cluster.topics[name].error]
    found: dict[str, TopicDescription] = {}
    for start in range(0, len(present), _AT_ONCE):
        part = present[start : start + _AT_ONCE]
        settings = await cluster.ask(describe_settings(part))
        for name in part:
            own = {key: one.value for key, one in settings.get(name, {}).items() if one.own}
            topic = cluster.topics[name]
            found[name] = TopicDescription(name, len(topic.leaders), topic.topic_id.hex(), own)
    return found


async def prepare_destination(
    source: Cluster, target: Cluster, topics: Sequence[str], naming: TopicNaming, replication: int
) -> TopicChanges:
    """Make and grow what is missing. Raises Refused, Unreachable."""
    changes = TopicChanges()
    here = await describe_topics(source, topics)
    there = await describe_topics(target, [naming.destination(topic) for topic in topics])
    for topic in topics:
        if topic not in here:
            raise TopicMissing(f"topic {topic} does not exist on {source.name}")
        name = naming.destination(topic)
        wanted = destination_description(here[topic], name)
        present = there.get(name)
        if present is None:
            await _create(target, wanted, replication)
            changes.created.append(name)
            continue
        if present.partitions < wanted.partitions:
            outcome = await target.ask_controller(create_partitions(name, wanted.partitions))
            if outcome.error:
                raise error_of(outcome.error, f"growing topic {name}", outcome.message)
            changes.grown.append(name)
        changes.drift.extend(drift(wanted, present))
    renewed = {*changes.created, *changes.grown}
    partitions = sum(here[topic].partitions for topic in topics if naming.destination(topic) in renewed)
    await _wait_for(target, renewed, _SETTLE_SECONDS + _SETTLE_SECONDS_A_PARTITION * partitions)
    return changes


async def _create(cluster: Cluster, topic: TopicDescription, replication: int) -> None:
    call = create_topic(topic.name, topic.partitions, replication, topic.settings)
    outcome = await cluster.ask_controller(call)
    if outcome.error not in _MADE:
        raise error_of(outcome.error, f"creating topic {topic.name}", outcome.message)


async def _wait_for(cluster: Cluster, topics: Collection[str], seconds: float) -> None:
    """Until every new partition has a leader."""

    async def look() -> None:
        await cluster.refresh(topics)
        for topic in topics:
            known = cluster.topics[topic]
            if known.error or any(leader < 0 for leader, _ in known.leaders):
                raise Unreachable(f"topic {topic} was made and has no leaders yet")

    if topics:
        await cluster.patiently(look, seconds)
