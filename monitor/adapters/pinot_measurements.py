"""Measurements from Pinot. Satisfies `monitor.ports.Measurements` and `monitor.objectives.history.Past`."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mirror.ports import Clock
from monitor.burn.pieces import Piece
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, TopicLatency, observations
from monitor.objectives.history import TopicPast
from pinot.client import PinotClient
from pinot.queries import lag_by_partition, latency_by_topic, staleness_by_topic
from pinot.time_range import TimeRange


class PinotMeasurements:
    """Sums histograms over the window; lag is what each partition reported last."""

    remark = ""

    def __init__(self, client: PinotClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def observe(self, window_seconds: float, least_ms: int = 0) -> Observations:
        """One observation for each topic with rows in the window; partitions that are younger than `least_ms`
        stay at Pinot. Raises Unreachable, AnalyticsError."""
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
            for row in lag_by_partition(self._client, when, least_ms=least_ms)
        ]
        latencies = [
            TopicLatency(Source(row.datastream, row.source_cluster), row.topic, row.records, row.counts)
            for row in latency_by_topic(self._client, when)
        ]
        return observations(latencies, lags, now_ms)

    def past(self, piece: Piece, milliseconds: Collection[int]) -> Mapping[Source, Mapping[str, TopicPast]]:
        """What was measured in a piece of the past. Raises Unreachable, AnalyticsError."""
        when = TimeRange.up_to(piece.until_ms, piece.until_ms - piece.since_ms)
        found: dict[Source, dict[str, TopicPast]] = {}
        for row in staleness_by_topic(self._client, when, sorted(milliseconds)):
            source = Source(row.datastream, row.source_cluster)
            found.setdefault(source, {})[row.topic] = TopicPast(row.counts, row.stale_seconds)
        return found
