"""What is known of some partitions, made into an answer about all that were asked for. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mirror.model.load import LoadLevel, PartitionLoad, RateSource, age_text
from mirror.model.topics import TopicPartition
from mirror.wording import counted
from pinot.partitions.loads import TopicRates

MISMATCH_SHARE: Final = 0.5
"""When fewer of the topics asked for are known, names are suspected rather than gaps."""
LEAST_COVERED: Final = 0.5
"""A mean over a smaller share of a topic's partitions is one of a part of it."""
_OF_A_PART: Final = frozenset({RateSource.PARTIAL, RateSource.HELD})


def completed(
    known: Mapping[TopicPartition, PartitionLoad],
    partitions: Sequence[TopicPartition],
    *,
    seasonal: Mapping[TopicPartition, PartitionLoad] | None = None,
    topic_means: Mapping[str, TopicRates],
    default_bytes_per_second: float,
) -> dict[TopicPartition, PartitionLoad]:
    """A load for each partition: its own, its seasonal one, the mean of its topic, or the default.

    `topic_means`: what the past says of topics of which no partition is known. A mean is `held` when all
    that it is of is, and `partial` when it is of less than `LEAST_COVERED` of the topic's partitions, or of
    some load that is held or partial itself.
    """
    sizes = Counter(partition.topic for partition in {*partitions, *known})
    past = {
        topic: _of_topic(
            one.mean_bytes_per_second,
            one.newest_ms,
            RateSource.MEAN if one.partitions >= LEAST_COVERED * sizes[topic] else RateSource.PARTIAL,
        )
        for topic, one in topic_means.items()
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
    """What the mean of some loads of a topic with that number of partitions is worth."""
    sources = {load.rate_source for load in loads}
    if sources == {RateSource.HELD}:
        return RateSource.HELD
    if sources & _OF_A_PART or len(loads) < LEAST_COVERED * partitions:
        return RateSource.PARTIAL
    return RateSource.MEAN


def coverage_notes(answers: Mapping[TopicPartition, PartitionLoad]) -> list[str]:
    """A sentence when not every partition's own load is known."""
    of_topic = sum(load.level is LoadLevel.TOPIC for load in answers.values())
    by_default = sum(load.level is LoadLevel.DEFAULT for load in answers.values())
    if not of_topic and not by_default:
        return []
    return [
        f"{len(answers) - of_topic - by_default} of {counted(len(answers), 'partition')} "
        "have loads of their own; "
        f"{of_topic} are given the mean of their topic, {by_default} the configured default"
    ]


def mark_notes(answers: Mapping[TopicPartition, PartitionLoad], now_ms: int) -> list[str]:
    """Sentences about loads that were measured before, or over a part of the window only."""
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
            "have no new samples and keep the load of "
            f"before, {oldest} since {age_text(ages[oldest])}"
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
            f"partial: the load of {partial} of {counted(len(answers), 'partition')} "
            "rests on a part of the window or "
            "of their topic"
        )
    return notes


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
        f"key mismatch: {len(missing)} of {counted(len(wanted), 'topic')} "
        f"of cluster {cluster} are not among its "
        f"{counted(len(sampled), 'sampled topic')}, such as {missing[0]}"
    )
    alike = {_plain(topic): topic for topic in sampled}
    twin = next((alike[_plain(topic)] for topic in missing if _plain(topic) in alike), None)
    return [f"{note}; the samples call it {twin}" if twin else f"{note}; sampled is {min(sampled)}"]


def _plain(topic: str) -> str:
    """A name without the characters that metric systems replace."""
    return topic.replace(".", "_").replace("-", "_").lower()
