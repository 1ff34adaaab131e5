"""Measurements from Pinot. Satisfies `monitor.ports.Measurements`."""

from __future__ import annotations

from typing import Final

from mirror.ports import Clock
from monitor.latency import Observation, Observations, Source
from pinot.client import PinotClient
from pinot.queries import lag_by_partition, latency_by_topic
from pinot.time_range import TimeRange

_ON_THE_WAY_MS: Final = 5_000
"""From a lane to Pinot."""


class PinotMeasurements:
    """Sums histograms over the window; lag is what each partition reported last."""

    def __init__(self, client: PinotClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def observe(self, window_seconds: float) -> Observations:
        """One observation for each topic with rows in the window.

        A lane reports no age while its source does not answer, and of waiting records that it never had. One
        of which records waited says so in each interval; when it falls silent, nobody knows how old they are.
        """
        now_ms = self._clock.now_ms()
        when = TimeRange.up_to(now_ms, int(window_seconds * 1000))
        lags: dict[tuple[Source, str], int] = {}
        unaged: dict[tuple[Source, str], int] = {}
        for lag in lag_by_partition(self._client, when):
            place = Source(lag.datastream, lag.source_cluster), lag.topic
            lags[place] = max(lags.get(place, 0), lag.lag_ms or 0)
            is_silent = lag.lag_records > 0 and now_ms - lag.time_ms > 2 * lag.interval_ms + _ON_THE_WAY_MS
            unaged[place] = unaged.get(place, 0) + (lag.lag_ms is None or is_silent)
        found: dict[Source, dict[str, Observation]] = {}
        for row in latency_by_topic(self._client, when):
            source = Source(row.datastream, row.source_cluster)
            place = source, row.topic
            one = Observation(row.records, row.counts, lags.get(place, 0), unaged.get(place, 0))
            found.setdefault(source, {})[row.topic] = one
        return found
