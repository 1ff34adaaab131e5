"""Finds partitions without recent samples or with unknown growth, from a cluster's sampling interval. Pure.

The partitions of a dead broker have no samples. For such a partition, the last measured load is the best
estimate, and is marked as held. If a broker returns after a gap in its samples, the growth of a log shows how
much was written during the gap, but not when. A growth over a gap is sufficient for a mean over the range,
but not for a percentile or a maximum. The growth between two samples is unknown if the leader changed. If
more than `MOST_UNKNOWN` of the range has unknown growth, the load is partial, because it can be wrong by that
share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from mirror.model.load import PartitionLoad, RateSource
from mirror.model.topics import TopicPartition
from pinot.partitions.load_queries import PartitionRates
from pinot.partitions.pages import Grain
from pinot.partitions.rollups import HOUR_MS
from pinot.tables import Statistic
from pinot.time_range import TimeRange

MOST_UNKNOWN: Final = 0.05
_ODD_SHARE: Final = 0.01
"""Tolerated share of partitions with implausible times when the sampling interval is estimated."""
_MISSED: Final = 0.5
"""Maximum age of a partition's sample at the latest round, as a share of the sampling interval.

A partition with an older sample was not part of the round.
"""
_LONG: Final = 1.5
"""Multiple of a sampling interval. A growth over a longer time spans a round without a sample."""
_SILENT_ROUNDS: Final = 3
"""Number of missed sampling rounds after which the whole cluster counts as not sampled."""
_LATE_MS: Final = {Grain.SAMPLES: 15_000, Grain.HOURS: 600_000}
"""Time in ms after a sampling round until all of its samples can be queried.

Cruise Control alone takes 5 s, and hours are rolled up every five minutes.
"""


@dataclass(frozen=True, slots=True)
class SampleTimes:
    """Times at which a cluster's partitions were sampled, in a range that starts at `since_ms`.

    `interval_ms`: usual time between two samples of a partition, 0 if no partition has two. `newest_ms`: time
    of the round that must contain every partition: the latest round, or the previous round while the latest
    may be incomplete. `span_ms`: length of the part of the range that samples should cover. `samples`: number
    of samples of a partition that missed no round.
    """

    since_ms: int
    interval_ms: float
    newest_ms: int
    span_ms: int
    samples: int

    def is_held(self, rates: PartitionRates) -> bool:
        """Return whether the latest samples of a partition are missing, so that its load is held
        (outdated)."""
        return rates.newest_ms < self.newest_ms - _MISSED * self.interval_ms

    def is_partial(self, rates: PartitionRates, statistic: Statistic) -> bool:
        """Return whether the growth of a partition is unknown for too large a part of the range."""
        if statistic is not Statistic.MEAN and self._lacks_steps(rates):
            return True
        unknown = self.span_ms - rates.growth_ms
        first_growth = rates.oldest_ms - rates.begin_ms
        if rates.begin_ms < self.since_ms and first_growth > _LONG * self.interval_ms > 0:
            unknown += rates.oldest_ms - self.since_ms
        return unknown > MOST_UNKNOWN * self.span_ms

    def _lacks_steps(self, rates: PartitionRates) -> bool:
        """Return whether a partition missed sampling rounds, so that too much of its growth spans several
        rounds.

        The partition missed some sampling rounds.
        """
        return (
            rates.longest_ms - _LONG * self.interval_ms > MOST_UNKNOWN * self.span_ms
            or self.samples - rates.samples > MOST_UNKNOWN * self.samples
        )


def rhythm_of(rates: Sequence[PartitionRates], when: TimeRange, grain: Grain) -> SampleTimes:
    """Determine how often a cluster was sampled in the range; `rates` must not be empty.

    Samples should cover the range from the first growth of any partition to the latest round, or to the
    previous round if the latest may be incomplete. A rollup contains only the start of its latest hour, so
    the partition with the most samples determines how much of that hour is covered.
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
    return SampleTimes(
        since_ms=when.since_ms,
        interval_ms=interval,
        newest_ms=newest_ms,
        span_ms=max(end_ms - begin_ms, int(np.sort(known)[-1 - odd])),
        samples=int(np.sort(samples)[-1 - odd]),
    )


def as_held(loads: Mapping[TopicPartition, PartitionLoad]) -> dict[TopicPartition, PartitionLoad]:
    """Return the loads with a mark that they are outdated (held)."""
    return {key: replace(load, rate_source=RateSource.HELD) for key, load in loads.items()}


def marked(
    loads: Mapping[TopicPartition, PartitionLoad],
    rates: Sequence[PartitionRates],
    rhythm: SampleTimes,
    statistic: Statistic,
) -> dict[TopicPartition, PartitionLoad]:
    """Mark loads that are outdated (held) or partial. `statistic`: statistic of the loads."""
    answer = dict(loads)
    for rate in rates:
        partition = TopicPartition(rate.topic, rate.kafka_partition)
        load = answer[partition]
        if rhythm.is_held(rate):
            answer[partition] = replace(load, rate_source=RateSource.HELD)
        elif load.rate_source is RateSource.SLOPE and rhythm.is_partial(rate, statistic):
            answer[partition] = replace(load, rate_source=RateSource.PARTIAL)
    return answer
