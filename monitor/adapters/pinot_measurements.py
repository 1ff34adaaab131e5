"""Measurements from Pinot. Satisfies `monitor.ports.Measurements`."""

from __future__ import annotations

from collections.abc import Mapping

from mirror.model.identifiers import DatastreamName
from mirror.ports import Clock
from monitor.latency import Observation
from pinot.client import PinotClient
from pinot.queries import lag_by_partition, latency_by_datastream
from pinot.time_range import TimeRange


class PinotMeasurements:
    """Sums histograms over the window; lag is what each partition reported last."""

    def __init__(self, client: PinotClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def observe(self, window_seconds: float) -> Mapping[DatastreamName, Observation]:
        """One observation for each datastream with rows in the window."""
        when = TimeRange.up_to(self._clock.now_ms(), int(window_seconds * 1000))
        lags: dict[str, int] = {}
        for lag in lag_by_partition(self._client, when):
            lags[lag.datastream] = max(lags.get(lag.datastream, 0), lag.lag_ms)
        return {
            DatastreamName(row.datastream): Observation(row.records, row.counts, lags.get(row.datastream, 0))
            for row in latency_by_datastream(self._client, when)
        }
