"""Converts measurements from Pinot or the metrics topic to observations. Pure.

The age of waiting records is unknown while the source of a lane does not respond, before the lane has fetched
a waiting record, and if the lane stops reporting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mirror.model.topics import EVERY_TOPIC
from monitor.latency import LatencyObservation, Observations, Source

_ON_THE_WAY_MS: Final = 5_000
"""Maximum delay in ms until a lane's measurement is available to readers."""


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Lag of a partition in its lane's last report, at `time_ms` for the `interval_ms` before. `lag_ms`: age
    of the oldest waiting record, None if unknown."""

    source: Source
    topic: str
    lag_records: int
    lag_ms: int | None
    time_ms: int
    interval_ms: int

    def is_unaged(self, now_ms: int) -> bool:
        """Return whether records may be waiting whose age is unknown."""
        is_silent = now_ms - self.time_ms > 2 * self.interval_ms + _ON_THE_WAY_MS
        return self.lag_ms is None or (self.lag_records > 0 and is_silent)


def observations(arrived: Iterable[Sequence[Any]], lags: Iterable[PartitionLag], now_ms: int) -> Observations:
    """Return the observations of each source and topic from sums of arrived records and lags of partitions.

    A row contains group, source cluster, topic, number of records, and the counts of a histogram. A lag is
    added to the observation of its topic, or to `EVERY_TOPIC` if the row sums all topics of the source.

    The code is optimised for thousands of rows and few lags.
    """
    found: dict[Source, dict[str, LatencyObservation]] = {}
    for row in arrived:
        group, cluster, topic, records = row[:4]
        topics = found.get((group, cluster))  # type: ignore[call-overload]
        if topics is None:
            topics = found[Source(group, cluster)] = {}
        topics[topic] = LatencyObservation(records, tuple(row[4:]), 0, 0)
    oldest: dict[tuple[Source, str], int] = {}
    unaged: dict[tuple[Source, str], int] = {}
    for lag in lags:
        is_summed = EVERY_TOPIC in found.get(lag.source, ())
        place = lag.source, EVERY_TOPIC if is_summed else lag.topic
        oldest[place] = max(oldest.get(place, 0), lag.lag_ms or 0)
        unaged[place] = unaged.get(place, 0) + lag.is_unaged(now_ms)
    for (source, topic), age in oldest.items():
        topics = found.get(source, {})
        if topic in topics:
            topics[topic] = topics[topic]._replace(lag_ms=age, unaged=unaged[source, topic])
    return found
