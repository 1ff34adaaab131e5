"""Rates from recorded samples of Cruise Control compared with the bytes actually written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from mirror.model.load import RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.tables import Statistic
from pinot.time_range import TimeRange
from pmp.loads.rates import RateOptions, partition_loads
from tests.recording import (
    DEATHS,
    LEAST_BYTES_PER_SECOND,
    Death,
    Finding,
    Truth,
    findings,
    provided,
    rates_over,
    recording,
    replay,
    sampled,
)

_SETTLING_MS = 180_000
_MINUTE_MS = 60_000
_TOLERATED = 0.05

Loads: TypeAlias = dict[TopicPartition, float]
Method: TypeAlias = Callable[[Sequence[PartitionRates]], Loads]


def main() -> None:
    """Print the errors of every method, over windows of one and four minutes; then loads around a failure."""
    recorded = recording()
    samples, truth = sampled(recorded), recorded.truth
    print("relative error of a partition's rate (above 500 B/s) and of a topic's sum")
    print(f"  {'window and method':44} {'rates':>6} {'median':>8} {'p90':>8} {'p99':>8} {'sum, worst':>11}")
    for window_ms in (_MINUTE_MS, 4 * _MINUTE_MS):
        for name, method in _METHODS.items():
            errors, sums = [], []
            for until_ms in _ends(samples, truth, window_ms):
                found = method(rates_over(samples, TimeRange.up_to(until_ms, window_ms)))
                one, whole = _errors(found, truth, until_ms, window_ms)
                errors += one
                sums += whole
            quantiles = (f"{np.quantile(errors, q):8.2%}" for q in (0.5, 0.9, 0.99))
            label = f"{window_ms // 1000} s, {name}"
            print(f"  {label:44} {len(errors):6} {' '.join(quantiles)} {max(sums):11.2%}")
    for name, death in DEATHS.items():
        _print_death(name, death)


def _averages(rates: Sequence[PartitionRates]) -> Loads:
    return {TopicPartition(rate.topic, rate.kafka_partition): rate.sampled for rate in rates}


def _slopes(rates: Sequence[PartitionRates]) -> Loads:
    """Return the loads that the load provider computes."""
    loads = partition_loads(rates, RateOptions(Statistic.MEAN, settled=False))
    return {partition: load.bytes_per_second for partition, load in loads.items()}


def _scaled(rates: Sequence[PartitionRates]) -> Loads:
    """Return slopes scaled to the sampled sum of the topic on each broker."""
    loads = partition_loads(rates, RateOptions(Statistic.MEAN, settled=False))
    sums: dict[tuple[str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for rate in rates:
        entry = sums[rate.topic, rate.broker]
        entry[0] += rate.sampled
        entry[1] += loads[TopicPartition(rate.topic, rate.kafka_partition)].bytes_per_second
    answer = {}
    for rate in rates:
        partition = TopicPartition(rate.topic, rate.kafka_partition)
        sampled_sum, grown = sums[rate.topic, rate.broker]
        is_slope = loads[partition].rate_source is RateSource.SLOPE and grown > 0
        answer[partition] = loads[partition].bytes_per_second * (sampled_sum / grown if is_slope else 1)
    return answer


_METHODS: dict[str, Method] = {
    "averages as sampled": _averages,
    "slopes, as provided": _slopes,
    "slopes scaled to the topic's sum": _scaled,
}


def _ends(samples: Sequence[PartitionRates], truth: Truth, window_ms: int) -> list[int]:
    """Return the sample times with a whole window before them, from the third minute."""
    begin_ms = truth.begin_ms + max(_SETTLING_MS, window_ms + _MINUTE_MS)
    times = sorted({sample.newest_ms for sample in samples})
    return [time for time in times if begin_ms <= time <= truth.end_ms]


def _errors(found: Loads, truth: Truth, until_ms: int, window_ms: int) -> tuple[list[float], list[float]]:
    errors = []
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for partition, rate in found.items():
        true = truth.rate(partition, until_ms - window_ms, until_ms)
        if true is None:
            continue
        sums[partition.topic][0] += rate
        sums[partition.topic][1] += true
        if true > LEAST_BYTES_PER_SECOND:
            errors.append(abs(rate - true) / true)
    return errors, [abs(got - true) / true for got, true in sums.values() if true]


def _print_death(name: str, death: Death) -> None:
    """Print one-minute loads by source, then the worst load in every sampling interval around the failure."""
    recorded = replay(death)
    samples = sampled(recorded)
    for statistic in (Statistic.P95, Statistic.MEAN):
        found = list(
            findings(recorded, partial(provided, samples, statistic=statistic), _MINUTE_MS, statistic)
        )
        print(f"\n{name}: {statistic} of 60 s, by source")
        _print_sources(found)
    print(
        f"  {'at':>6} {'worst load of the round':24} {'true B/s':>10} {'load':>10} {'error':>9}  source, age"
    )
    for at_ms in sorted({one.at_ms for one in found if one.load.rate_source is not RateSource.SLOPE}):
        one = max((one for one in found if one.at_ms == at_ms), key=lambda one: one.error)
        print(
            f"  {(at_ms - recorded.truth.begin_ms) / 1000:4.0f} s {one.partition!s:24} {one.truth:10.0f} "
            f"{one.load.bytes_per_second:10.0f} {one.error:9.1%}  {one.load.rate_source}, "
            f"{_age_ms(one) / 1000:.0f} s"
        )


def _print_sources(found: Sequence[Finding]) -> None:
    print(f"  {'source':8} {'loads':>6} {'median':>9} {'worst':>9} {'above 5 %':>9} {'oldest':>8}")
    by_source: dict[RateSource, list[Finding]] = defaultdict(list)
    for one in found:
        by_source[one.load.rate_source].append(one)
    for source, ones in by_source.items():
        errors = [one.error for one in ones]
        print(
            f"  {source:8} {len(ones):6} {np.median(errors):9.2%} {max(errors):9.2%} "
            f"{sum(error > _TOLERATED for error in errors):9} {max(map(_age_ms, ones)) / 1000:6.1f} s"
        )


def _age_ms(finding: Finding) -> int:
    age_ms = finding.load.age_ms(finding.at_ms)
    assert age_ms is not None, f"{finding.partition} has no age"
    return age_ms
