"""What is known of some partitions, made into an answer about all that were asked for. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition

MISMATCH_SHARE: Final = 0.5
"""When fewer of the topics asked for are known, names are suspected rather than gaps."""


def completed(
    known: Mapping[TopicPartition, PartitionLoad],
    partitions: Sequence[TopicPartition],
    *,
    topic_means: Mapping[str, float],
    default_bytes_per_second: float,
) -> dict[TopicPartition, PartitionLoad]:
    """A load for each partition: its own, the mean of its topic, or the default.

    `topic_means`: bytes per second of one partition of topics of which no partition is known.
    """
    siblings = _means_by_topic(known)
    answers = {}
    for partition in partitions:
        mean = siblings.get(partition.topic, topic_means.get(partition.topic))
        if partition in known:
            answers[partition] = known[partition]
        elif mean is not None:
            answers[partition] = PartitionLoad(mean, None, LoadLevel.TOPIC, RateSource.MEAN)
        else:
            answers[partition] = PartitionLoad(
                default_bytes_per_second, None, LoadLevel.DEFAULT, RateSource.CONFIGURED
            )
    return answers


def _means_by_topic(known: Mapping[TopicPartition, PartitionLoad]) -> dict[str, float]:
    rates: dict[str, list[float]] = defaultdict(list)
    for partition, load in known.items():
        rates[partition.topic].append(load.bytes_per_second)
    return {topic: sum(values) / len(values) for topic, values in rates.items()}


def coverage_notes(answers: Mapping[TopicPartition, PartitionLoad]) -> list[str]:
    """A sentence when not every partition's own load is known."""
    of_topic = sum(load.level is LoadLevel.TOPIC for load in answers.values())
    by_default = sum(load.level is LoadLevel.DEFAULT for load in answers.values())
    if not of_topic and not by_default:
        return []
    return [
        f"{len(answers) - of_topic - by_default} of {len(answers)} partitions have loads of their own; "
        f"{of_topic} are given the mean of their topic, {by_default} the configured default"
    ]


def mismatch_notes(
    cluster: str, known: Iterable[TopicPartition], asked: Iterable[TopicPartition]
) -> list[str]:
    """A sentence when the topics asked for are hardly among the sampled ones: the names do not match."""
    sampled = {partition.topic for partition in known}
    wanted = {partition.topic for partition in asked}
    missing = sorted(wanted - sampled)
    if not wanted or not sampled or len(missing) <= (1 - MISMATCH_SHARE) * len(wanted):
        return []
    note = (
        f"key mismatch: {len(missing)} of {len(wanted)} topics of cluster {cluster} are not among its "
        f"{len(sampled)} sampled topics, such as {missing[0]}"
    )
    alike = {_plain(topic): topic for topic in sampled}
    twin = next((alike[_plain(topic)] for topic in missing if _plain(topic) in alike), None)
    return [f"{note}; the samples call it {twin}" if twin else f"{note}; sampled is {min(sampled)}"]


def _plain(topic: str) -> str:
    """A name without the characters that metric systems replace."""
    return topic.replace(".", "_").replace("-", "_").lower()
