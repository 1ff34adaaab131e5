"""Creates a topic even if the cluster rejects some of its settings."""

from __future__ import annotations

from typing import NamedTuple

from mirror.client.cluster import Cluster
from mirror.model.datastreams.policy import FORCED_SETTINGS
from mirror.model.topics import TopicDescription
from mirror.protocol.codes import Code
from mirror.protocol.control.refused_settings import adjusted_setting
from mirror.protocol.control.topics import TopicOutcome, create_topic


class TopicCreation(NamedTuple):
    """Result of a creation.

    `adjustments`: a message for each setting that was clamped or omitted.
    """

    outcome: TopicOutcome
    adjustments: tuple[str, ...] = ()


async def create_adjusted(cluster: Cluster, topic: TopicDescription, replication: int) -> TopicCreation:
    """Create a topic. Clamp or omit settings that the broker rejects.

    `FORCED_SETTINGS` are never omitted, because copies would differ from the source without them. Raises
    Unreachable.
    """
    settings, reasons = dict(topic.settings), dict[str, str]()
    while True:
        outcome = await _create(cluster, topic, replication, settings)
        optional = {key: settings[key] for key in settings.keys() - FORCED_SETTINGS.keys()}
        refused = adjusted_setting(outcome.error, outcome.message, optional)
        if refused is None:
            break
        key, value = refused
        if value is None or key in reasons:
            del settings[key]
        else:
            settings[key] = value
        reasons[key] = outcome.message
    if outcome.error == Code.INVALID_CONFIG:
        outcome = await _create_without_one(cluster, topic, replication, settings, reasons) or outcome
    return TopicCreation(outcome, () if outcome.error else _sentences(topic, settings, reasons))


async def _create_without_one(
    cluster: Cluster,
    topic: TopicDescription,
    replication: int,
    settings: dict[str, str],
    reasons: dict[str, str],
) -> TopicOutcome | None:
    """Try to create the topic without one of the settings, each in turn, because the broker has not named the
    rejected setting."""
    for key in sorted(settings.keys() - FORCED_SETTINGS.keys()):
        fewer = {name: value for name, value in settings.items() if name != key}
        outcome = await _create(cluster, topic, replication, fewer)
        if outcome.error != Code.INVALID_CONFIG:
            del settings[key]
            reasons[key] = "the broker gave no reason"
            return outcome
    return None


async def _create(
    cluster: Cluster, topic: TopicDescription, replication: int, settings: dict[str, str]
) -> TopicOutcome:
    return await cluster.ask_controller(create_topic(topic.name, topic.partitions, replication, settings))


def _sentences(topic: TopicDescription, settings: dict[str, str], reasons: dict[str, str]) -> tuple[str, ...]:
    return tuple(
        f"{topic.name}: {key} is {settings.get(key, 'the default')} instead of {topic.settings[key]}, which"
        f" the destination rejects ({reason})"
        for key, reason in sorted(reasons.items())
    )
