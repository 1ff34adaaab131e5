"""How a cluster was sampled over a range: which partitions fell silent, and which are known in part. Pure.

A dead broker's partitions have no samples. What they carried before is the best that is known of them,
but nobody has measured it since: such a load is held. A log's growth over a gap (the broker came back)
says what came in, not when: enough for a mean over the range, not for a percentile or a maximum. A step of
which nothing is known (another leader) leaves a hole. Where a range rests on such for more than
`MOST_UNKNOWN` of its length the load is partial: were the unknown part up to twice as busy as the known
one, or silent, the load would be off by that share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mirror.model.load import PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.loads import PartitionRates
from pinot.partitions.pages import Grain
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import Statistic
from pinot.time_range import TimeRange

MOST_UNKNOWN: Final = 0.05
_ODD_SHARE: Final = 0.01
"""So few partitions may have impossible times without a say in what is usual for the cluster."""
_MISSED: Final = 0.5
"""Of a sampling interval: from this much behind the newest round on, a partition was not in it."""
_LONG: Final = 1.5
"""Of a sampling interval: a growth over more than this spans a round without a sample."""
_SILENT_ROUNDS: Final = 3
"""A cluster of which as many rounds did not come is silent as a whole."""
_LATE_MS: Final = {Grain.SAMPLES: 15_000, Grain.HOURS: 600_000}
"""From a round's time until all of it is in an answer: Cruise Control alone takes 5 s, and an hour is rolled
up every five minutes."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a cluster's samples came, over a range that begins at `since_ms`.

    `interval_ms`: usual time between two samples of a partition, 0 where none has two. `newest_ms`: the
    round that a partition must be in: the newest one, or while that may still be on its way the one before.
    `span_ms`: how much of the range the samples should speak of.
    `samples`: of a partition that missed no round.
    """

    since_ms: int
    interval_ms: float
    newest_ms: int
    span_ms: int
    samples: int

    def is_held(self, rates: PartitionRates) -> bool:
        """Whether the partition's newest samples are missing."""
        return rates.newest_ms < self.newest_ms - _MISSED * self.interval_ms

    def is_partial(self, rates: PartitionRates, statistic: Statistic) -> bool:
        """Whether too much of the range is not known from the partition's growth."""
        if statistic is not Statistic.MEAN and self._lacks_steps(rates):
            return True
        unknown = self.span_ms - rates.growth_ms
        first_growth = rates.oldest_ms - rates.begin_ms
        if rates.begin_ms < self.since_ms and first_growth > _LONG * self.interval_ms > 0:
            unknown += rates.oldest_ms - self.since_ms
        return unknown > MOST_UNKNOWN * self.span_ms

    def _lacks_steps(self, rates: PartitionRates) -> bool:
        """Whether growths over missed rounds stand for too many steps of their own."""
        return (
            rates.longest_ms - _LONG * self.interval_ms > MOST_UNKNOWN * self.span_ms
            or self.samples - rates.samples > MOST_UNKNOWN * self.samples
        )


def rhythm_of(rates: Sequence[PartitionRates], when: TimeRange, grain: Grain) -> Rhythm:
    """The rhythm of all sampled partitions of a cluster over the range; `rates` must not be empty.

    Samples should speak of the range from the first growth of any partition to the newest sample, or to the
    round before it when that is late. A rollup says of its newest hour when it began only, so there the
    partition that is known best says how far that reaches.
    """
    newest, oldest, begin, samples, known = (
        np.array([getattr(rate, name) for rate in rates], dtype=np.int64)
        for name in ("newest_ms", "oldest_ms", "begin_ms", "samples", "growth_ms")
    )
    several = samples > 1
    steps = (newest[several] - oldest[several]) / (samples[several] - 1)
    interval = float(HOUR_MS) if grain is Grain.HOURS else float(np.median(steps)) if len(steps) else 0.0
    odd = int(_ODD_SHARE * len(rates))
    late_ms = _LATE_MS[grain]
    silent = when.until_ms - _SILENT_ROUNDS * interval - _LATE_MS[Grain.SAMPLES]
    newest_round = int(np.sort(newest)[-1 - odd])
    is_whole = when.until_ms - newest_round > late_ms
    newest_ms = int(max(silent if interval else 0, newest_round if is_whole else newest_round - interval))
    begin_ms = max(when.since_ms, int(np.sort(begin)[odd]))
    end_ms = max(newest_round, int(when.until_ms - interval - late_ms) if interval else 0)
    return Rhythm(
        since_ms=when.since_ms,
        interval_ms=interval,
        newest_ms=newest_ms,
        span_ms=max(end_ms - begin_ms, int(np.sort(known)[-1 - odd])),
        samples=int(np.sort(samples)[-1 - odd]),
    )


def held(loads: Mapping[TopicPartition, PartitionLoad]) -> dict[TopicPartition, PartitionLoad]:
    """All loads marked as what was measured before."""
    return {key: replace(load, rate_source=RateSource.HELD) for key, load in loads.items()}


def marked(
    loads: Mapping[TopicPartition, PartitionLoad],
    rates: Sequence[PartitionRates],
    rhythm: Rhythm,
    statistic: Statistic,
) -> dict[TopicPartition, PartitionLoad]:
    """The loads, which are the `statistic` of the range; those that are held or partial marked so."""
    answer = dict(loads)
    for rate in rates:
        partition = TopicPartition(rate.topic, rate.kafka_partition)
        load = answer[partition]
        if rhythm.is_held(rate):
            answer[partition] = replace(load, rate_source=RateSource.HELD)
        elif load.rate_source is RateSource.SLOPE and rhythm.is_partial(rate, statistic):
            answer[partition] = replace(load, rate_source=RateSource.PARTIAL)
    return answer
