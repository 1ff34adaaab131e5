"""Computes partition loads from measured rates. Pure.

If the log growth of a partition is known, it gives the true rate. Otherwise (see `pmp.job.growth`; always for
compacted topics), only Cruise Control's average is available. The average is corrected: the averages of a
topic on one broker add up to the topic's true rate on that broker, so the remainder of that sum is divided
among the partitions without a known growth.

The sum also reveals growth that retention has hidden: a log that lost as much as it gained between two
samples seems to be idle. If logs of the topic shrank and the growths are clearly below the sum, the growths
of the shrinking logs are scaled up to the sum. Scaling requires a long range, because in a short range a step
in load looks the same. In all other cases growths are not scaled, because they are more accurate than the sum
(docs/decisions).

Message rates are available as averages only. A topic's messages on a broker are distributed in proportion to
bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import Final

from mirror.model.load import LoadLevel, PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.tables import Statistic

SETTLED_MS: Final = 600_000
"""Minimum length of a range for which one-minute means do not depend on earlier load."""
CLEARLY_SHORT: Final = 0.8
"""Share of the topic's sampled sum. If the growths are below this share, retention has probably hidden the
rest."""
_UNIT_FACTOR: Final = 100.0


@dataclass(frozen=True)
class RateOptions:
    """Properties of measured rates that determine how loads are computed from them.

    `averaged`: sampled rates are a topic's average on its broker (Cruise Control), not the partition's own
    (Headrace's sampler). `compacted`: topics whose log sizes do not show how much is written. `settled`:
    whether the range is at least SETTLED_MS long.
    """

    statistic: Statistic = Statistic.P95
    averaged: bool = True
    settled: bool = True
    compacted: Set[str] = frozenset()


def partition_loads(
    rates: Iterable[PartitionRates], reading: RateOptions
) -> dict[TopicPartition, PartitionLoad]:
    """Compute the load of each sampled partition."""
    groups: dict[tuple[str, int], list[PartitionRates]] = defaultdict(list)
    for rate in rates:
        groups[rate.topic, rate.broker].append(rate)
    loads: dict[TopicPartition, PartitionLoad] = {}
    for group in groups.values():
        loads.update(_loads_of(group, reading))
    return loads


def unit_problem(rates: Iterable[PartitionRates]) -> str:
    """Return a note if sampled rates and log growth differ so widely that a unit must be wrong; otherwise
    empty."""
    grown = [rate for rate in rates if rate.growth_ms > 0 and not rate.shrunk]
    sampled = sum(rate.sampled for rate in grown)
    growth = sum(rate.growth_bytes * 1000 / rate.growth_ms for rate in grown)
    if min(sampled, growth) <= 0 or 1 / _UNIT_FACTOR < sampled / growth < _UNIT_FACTOR:
        return ""
    return (
        f"sampled rates are {sampled / growth:.3g} times the growth of the logs: "
        "check that the samples use KiB/s and MiB, as Cruise Control does"
    )


def _loads_of(group: list[PartitionRates], reading: RateOptions) -> dict[TopicPartition, PartitionLoad]:
    """Compute the loads of those partitions of a topic that one broker leads."""
    means = _means(group, reading)
    loads = {}
    for rate in group:
        mean, source = means[rate.kafka_partition]
        loads[TopicPartition(rate.topic, rate.kafka_partition)] = PartitionLoad(
            bytes_per_second=_of_statistic(rate, mean, source, reading.statistic),
            messages_per_second=rate.messages,
            level=LoadLevel.PARTITION,
            rate_source=source,
            measured_at_ms=rate.newest_ms,
        )
    return _with_messages(loads, group) if reading.averaged else loads


def _means(group: list[PartitionRates], reading: RateOptions) -> dict[int, tuple[float, RateSource]]:
    """Map each partition to its mean rate, and to the source of that rate."""
    known = [rate for rate in group if rate.growth_ms > 0 and rate.topic not in reading.compacted]
    slope = {rate.kafka_partition: rate.growth_bytes * 1000 / rate.growth_ms for rate in known}
    total = sum(rate.sampled for rate in group)
    if reading.averaged and reading.settled and len(known) == len(group):
        slope = _unhidden(slope, {rate.kafka_partition for rate in group if rate.shrunk}, total)
    rest = max(0.0, total - sum(slope.values())) / max(1, len(group) - len(known))
    means = {number: (value, RateSource.SLOPE) for number, value in slope.items()}
    for rate in group:
        if rate.kafka_partition not in means:
            means[rate.kafka_partition] = (rest if reading.averaged else rate.sampled, RateSource.MEAN)
    return means


def _unhidden(slope: dict[int, float], shrinking: Set[int], total: float) -> dict[int, float]:
    """Scale up the growth of logs from which retention has deleted a part in the meantime.

    If the sum of the growths is clearly below the rate `total` of the topic, the growths of the `shrinking`
    partitions are scaled up to the missing part.
    """
    if not shrinking or sum(slope.values()) >= CLEARLY_SHORT * total:
        return slope
    seen = sum(slope[number] for number in shrinking)
    missing = total - sum(value for number, value in slope.items() if number not in shrinking)
    return slope | {
        number: missing * slope[number] / seen if seen > 0 else missing / len(shrinking)
        for number in shrinking
    }


def _of_statistic(rate: PartitionRates, mean: float, source: RateSource, statistic: Statistic) -> float:
    """Return the sampled statistic, multiplied by the ratio of the corrected mean to the sampled mean."""
    if statistic is Statistic.MEAN:
        return mean
    if source is RateSource.SLOPE:
        observed = rate.growth_bytes * 1000 / rate.growth_ms
    elif rate.growth_ms == 0:
        observed = rate.sampled
    else:
        return mean  # compacted topic: its growths do not show the inflow
    return rate.inflow * mean / observed if observed > 0 else max(mean, rate.inflow)


def _with_messages(
    loads: dict[TopicPartition, PartitionLoad], group: list[PartitionRates]
) -> dict[TopicPartition, PartitionLoad]:
    """Add message rates to the loads.

    Only the sum of messages is known; it is distributed in proportion to bytes.
    """
    total = sum(load.bytes_per_second for load in loads.values())
    if total <= 0 or any(rate.messages is None for rate in group):
        return loads
    messages = sum(rate.messages or 0.0 for rate in group)
    return {
        partition: replace(load, messages_per_second=messages * load.bytes_per_second / total)
        for partition, load in loads.items()
    }
