"""Estimates the loads of partitions without measurements. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mirror.model.load import LoadLevel, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition
from mirror.wording import counted
from pinot.partitions.load_queries import TopicRates

MISMATCH_SHARE: Final = 0.5
"""Minimum share of the requested topics that samples must cover. Below this share, topic names probably
differ."""
LEAST_COVERED: Final = 0.5
"""Minimum share of a topic's partitions that a mean must cover. Below this share, the mean is marked as
partial."""
_OF_A_PART: Final = frozenset({RateSource.PARTIAL, RateSource.HELD})


def completed(
    known: Mapping[TopicPartition, PartitionLoad],
    partitions: Sequence[TopicPartition],
    *,
    seasonal: Mapping[TopicPartition, PartitionLoad] | None = None,
    topic_means: Mapping[str, TopicRates],
    default_bytes_per_second: float,
) -> dict[TopicPartition, PartitionLoad]:
    """Return the load of every partition, measured if possible, otherwise estimated.

    The load is the partition's own load, its seasonal load, the mean of its topic, or the default.

    `topic_means`: past means of topics without any known partition. A mean is marked as `held` if all of its
    loads are last known loads (`held`). A mean is marked as `partial` if it covers less than `LEAST_COVERED`
    of the topic's partitions, or includes some held or partial load.
    """
    sizes = Counter(partition.topic for partition in {*partitions, *known})
    past = {
        topic: _of_topic(
            mean.mean_bytes_per_second,
            mean.newest_ms,
            RateSource.MEAN if mean.partitions >= LEAST_COVERED * sizes[topic] else RateSource.PARTIAL,
        )
        for topic, mean in topic_means.items()
    }
    means = past | _means_by_topic(known, sizes)
    default = PartitionLoad(default_bytes_per_second, None, LoadLevel.DEFAULT, RateSource.CONFIGURED)
    known = {**(seasonal or {}), **known}
    return {key: known.get(key) or means.get(key.topic) or default for key in partitions}


def _of_topic(bytes_per_second: float, measured_at_ms: int | None, source: RateSource) -> PartitionLoad:
    return PartitionLoad(bytes_per_second, None, LoadLevel.TOPIC, source, measured_at_ms)


def _means_by_topic(
    known: Mapping[TopicPartition, PartitionLoad], sizes: Mapping[str, int]
) -> dict[str, PartitionLoad]:
    by_topic: dict[str, list[PartitionLoad]] = defaultdict(list)
    for partition, load in known.items():
        by_topic[partition.topic].append(load)
    return {
        topic: _of_topic(
            sum(load.bytes_per_second for load in loads) / len(loads),
            max((load.measured_at_ms for load in loads if load.measured_at_ms is not None), default=None),
            _source_of_mean(loads, sizes[topic]),
        )
        for topic, loads in by_topic.items()
    }


def _source_of_mean(loads: Sequence[PartitionLoad], partitions: int) -> RateSource:
    """Return the rate source to report for a mean over the known loads of a topic with `partitions`
    partitions."""
    sources = {load.rate_source for load in loads}
    if sources == {RateSource.HELD}:
        return RateSource.HELD
    if sources & _OF_A_PART or len(loads) < LEAST_COVERED * partitions:
        return RateSource.PARTIAL
    return RateSource.MEAN


def coverage_notes(answers: Mapping[TopicPartition, PartitionLoad]) -> list[str]:
    """Return a note on how many partitions use the mean of their topic or the default; empty if none do."""
    of_topic = sum(load.level is LoadLevel.TOPIC for load in answers.values())
    by_default = sum(load.level is LoadLevel.DEFAULT for load in answers.values())
    if not of_topic and not by_default:
        return []
    return [
        f"{len(answers) - of_topic - by_default} of {counted(len(answers), 'partition')} "
        "have measured loads; "
        f"{of_topic} use the mean of their topic, {by_default} the configured default"
    ]


def mark_notes(answers: Mapping[TopicPartition, PartitionLoad], now_ms: int) -> list[str]:
    """Return notes on loads that are outdated (held) or cover only a part of the time (partial)."""
    notes = []
    ages = {
        key: load.age_ms(now_ms) or 0
        for key, load in answers.items()
        if load.rate_source is RateSource.HELD and load.measured_at_ms is not None
    }
    if ages:
        oldest = max(ages, key=lambda key: (ages[key], key))
        notes.append(
            f"held: {len(ages)} of {counted(len(answers), 'partition')} "
            "have no new samples and keep their "
            f"last load, {oldest} for {age_text(ages[oldest])}"
        )
    seasonal = sum(load.rate_source is RateSource.SEASONAL for load in answers.values())
    if seasonal:
        notes.append(
            f"seasonal: {seasonal} of {counted(len(answers), 'partition')} have no samples and are given the "
            "median load of this hour in earlier weeks or days"
        )
    partial = sum(load.rate_source is RateSource.PARTIAL for load in answers.values())
    if partial:
        notes.append(
            f"partial: the loads of {partial} of {counted(len(answers), 'partition')} "
            "cover only part of the window or "
            "of their topic"
        )
    return notes


def mismatch_notes(
    cluster: str, known: Iterable[TopicPartition], requested: Iterable[TopicPartition]
) -> list[str]:
    """Return a note if few of the requested topics are sampled.

    If few topics are sampled, names of topics or clusters probably do not match.
    """
    sampled = {partition.topic for partition in known}
    wanted = {partition.topic for partition in requested}
    missing = sorted(wanted - sampled)
    if not wanted or not sampled or len(missing) <= (1 - MISMATCH_SHARE) * len(wanted):
        return []
    note = (
        f"key mismatch: {len(missing)} of {counted(len(wanted), 'topic')} "
        f"of cluster {cluster} are not among its "
        f"{counted(len(sampled), 'sampled topic')}, such as {missing[0]}"
    )
    alike = {_plain(topic): topic for topic in sampled}
    twin = next((alike[_plain(topic)] for topic in missing if _plain(topic) in alike), None)
    return [
        f"{note}; its name in the samples is {twin}" if twin else f"{note}; a sampled topic is {min(sampled)}"
    ]


def _plain(topic: str) -> str:
    """Replace the characters in a topic name that metric systems replace, too."""
    return topic.replace(".", "_").replace("-", "_").lower()
