"""Reads measurements from Pinot.

Implements `monitor.ports.Measurements` and `monitor.objectives.past.PastMeasurements`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mirror.ports import Clock
from monitor.burn.pieces import TimeRangePiece
from monitor.burn.tally import late_share
from monitor.latency import Observations, Source
from monitor.measurement_sums import PartitionLag, observations
from monitor.objectives.late_times import LateSpan, LateTopics, TopicLateness, is_recent
from monitor.objectives.past import TopicLatencySums
from pinot.client import PinotClient
from pinot.queries import lag_by_partition
from pinot.time_range import TimeRange
from pinot.topic_latency import arrived, late_reports, lateness, stale_by_topic


class PinotMeasurements:
    """Measurements in Pinot: histograms summed over a window, and the last reported lag of each partition."""

    remark = ""

    def __init__(self, client: PinotClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """Return the measurements of each topic that has rows in the window. Raises Unreachable,
        AnalyticsError.

        Each source in `together` gets a single observation for all its topics. Lags of at most `least_ms` are
        omitted.
        """
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
        return observations(arrived(self._client, when, together), lags, now_ms)

    def past(
        self, period: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        """Return the measurements of a past time range. Raises Unreachable, AnalyticsError."""
        when, ages = TimeRange.up_to(period.until_ms, period.length_ms), sorted(milliseconds)
        found = lateness(self._client, when, ages, together)
        late = {age: _late(found.beyond[age], found.within[age], age) for age in ages}
        return TopicLatencySums(found.places, found.records, late, stale_by_topic(self._client, when, ages))

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics:
        """Return, for each topic of the sources, the records since `since_ms` that were late. The lateness of
        a record is the upper bound of its histogram bucket. Raises Unreachable, AnalyticsError."""
        now_ms = self._clock.now_ms()
        groups = sorted({source.group for source in sources})
        when = TimeRange.up_to(now_ms, max(now_ms - since_ms, 1))
        reports = late_reports(self._client, when, groups, least_ms)
        spans: dict[tuple[Source, str], list[LateSpan]] = {}
        recent: dict[tuple[Source, str], int] = {}
        for row in reports.late:
            last = reports.newest.get(row.place)
            if row.age_ms > least_ms and last is not None:
                topic = Source(*row.place[:2]), row.place[2]
                span = LateSpan(row.time_ms - row.waited_ms, row.time_ms, row.age_ms)
                spans.setdefault(topic, []).append(span)
                if is_recent(row.time_ms, last.time_ms, last.interval_ms):
                    recent[topic] = max(recent.get(topic, 0), row.age_ms)
        found: dict[Source, dict[str, TopicLateness]] = {}
        for (source, name), late in spans.items():
            found.setdefault(source, {})[name] = TopicLateness(late, recent.get((source, name), 0))
        return found


def _late(beyond: Sequence[float], within: Sequence[float], age_ms: int) -> list[float]:
    share = late_share(age_ms)
    return [above + own * share for above, own in zip(beyond, within, strict=True)]
