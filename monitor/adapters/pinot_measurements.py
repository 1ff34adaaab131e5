"""Measurements from Pinot. Satisfies `monitor.ports.Measurements`."""

from __future__ import annotations

from mirror.ports import Clock
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, TopicLatency, observations
from pinot.client import PinotClient
from pinot.queries import lag_by_partition, latency_by_topic
from pinot.time_range import TimeRange


class PinotMeasurements:
    """Sums histograms over the window; lag is what each partition reported last."""

    remark = ""

    def __init__(self, client: PinotClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def observe(self, window_seconds: float) -> Observations:
        """One observation for each topic with rows in the window. Raises Unreachable, AnalyticsError."""
        now_ms = self._clock.now_ms()
        when = TimeRange.up_to(now_ms, int(window_seconds * 1000))
        lags = [
            PartitionLag(
                Source(row.datastream, row.source_cluster),
                row.topic,
                row.lag_records,
                row.lag_ms,
                row.time_ms,
                row.interval_ms,
            )
            for row in lag_by_partition(self._client, when)
        ]
        latencies = [
            TopicLatency(Source(row.datastream, row.source_cluster), row.topic, row.records, row.counts)
            for row in latency_by_topic(self._client, when)
        ]
        return observations(latencies, lags, now_ms)
