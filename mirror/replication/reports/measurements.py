"""Measures lanes, and creates records for the metrics topic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from mirror.lane.counters import LaneCounters
from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import ANSWERED, LaneWindows, Unanswered
from mirror.model.identifiers import ClusterRef
from mirror.model.latency import LATENCY_BUCKETS, age_ms
from mirror.model.metrics import MirrorMetric
from mirror.model.movement.exemptions import CatchUpGrace
from mirror.replication.reports.copy_costs import cost_of

_NO_LATENCY: Final = (0,) * LATENCY_BUCKETS
_NONE_SILENT: Final[Mapping[ClusterRef, float]] = MappingProxyType({})
_HEARD_SECONDS: Final = 15.0
"""Seconds for which an end offset from the source is valid."""
_OVERDUE_SECONDS: Final = 1.0
"""Seconds of delay from which on a response counts as overdue."""


TakeCounters = Callable[[Lane, int, int], LaneCounters]
"""Function of a lane, its lag in offsets and epoch ms. Returns the counters since its previous call."""


class MeasurementInterval(NamedTuple):
    """Interval of a measurement of all lanes, and overdue responses at its end.

    `end_ms`, `length_ms`: end (epoch ms) and length of the interval. `now`: end of the interval (monotonic
    seconds). `response_due`: due time of the oldest outstanding response (monotonic seconds). `silent`:
    `BrokerWatch.silent_since` of clusters with overdue responses.
    """

    end_ms: int
    length_ms: int
    instance: str
    now: float
    response_due: float = -inf
    silent: Mapping[ClusterRef, float] = _NONE_SILENT

    @property
    def is_answered(self) -> bool:
        """Return whether every response had arrived in time at the end of the interval."""
        return self.now - self.response_due < _OVERDUE_SECONDS


def take_metric(
    lane: Lane, interval: MeasurementInterval, take_counters: TakeCounters
) -> MirrorMetric | None:
    """Return the measurement of the lane since the previous call, or None if there is nothing to report.

    Returns None before the first response of the source, and for an idle lane that was idle at the previous
    measurement, which stays valid. CPU times are costs from `cost_of`; `share_cpu` scales them to the
    worker's CPU time. `take_counters`: `LaneDelivery.take_counters`.
    """
    if lane.read.high_watermark < 0:
        return None
    lag = lag_records(lane)
    age = lag_ms(lane, interval.end_ms, has_response=has_response(lane, interval.now))
    counters = take_counters(lane, lag, interval.end_ms)
    silent = interval.silent.get(lane.spec.destination, inf) if lane.ownership.is_identifying else inf
    is_answered = interval.is_answered and silent == inf
    lane.observed.overdue = ANSWERED if is_answered else unanswered(lane, interval.now, silent)
    lane.observed.measured = age, counters.records_copied, counters.bytes_copied
    is_busy = bool(counters.batches or lag)
    before, lane.observed.was_measured = (
        lane.observed.was_measured,
        (is_busy, age is None, lane.observed.overdue != ANSWERED),
    )
    if not is_busy and before == lane.observed.was_measured:
        return None
    spec, cost = lane.spec, cost_of(counters)
    return MirrorMetric(
        time_ms=interval.end_ms,
        interval_ms=interval.length_ms,
        instance=interval.instance,
        task=spec.task,
        datastream=spec.key.group,
        source_cluster=spec.source,
        topic=spec.key.partition.topic,
        kafka_partition=spec.key.partition.partition,
        lag_records=lag,
        lag_ms=age,
        latency_counts=tuple(counters.latency) or _NO_LATENCY,
        cpu_ms=cost.cpu_us / 1000,
        spare_cpu_ms=cost.spare_us / 1000,
        **counters.measured(),
    )


def counted_metric(grace: CatchUpGrace, metric: MirrorMetric) -> MirrorMetric:
    """Return the measurement with the age of the backlog as latency objectives count it."""
    age = grace.counted_age(metric.lag_ms, metric.time_ms)
    return metric if age == metric.lag_ms else replace(metric, lag_ms=age)


def lag_records(lane: Lane) -> int:
    """Return the number of source records that are not at the destination, as of the last response."""
    return max(lane.read.high_watermark - lane.checkpoint, 0) if lane.read.high_watermark >= 0 else 0


def has_response(lane: Lane, now: float) -> bool:
    """Return whether the end of the source log is known at `now` (monotonic seconds).

    The end is unknown if responses are late or throttled, or if the lane waits for something else and does
    not fetch. The end offsets of such lanes are requested separately (`lacks_end`).
    """
    has_heard = now - lane.read.answered_at < _HEARD_SECONDS
    if lane.read.waits:
        return has_heard
    reader = lane.reader
    return reader is not None and lane.is_writable and (has_heard or reader.is_current(now))


def lacks_end(lane: Lane) -> bool:
    """Return whether the age of the backlog is unknown because no Fetch response included the end offset."""
    is_read = lane.read.waits or (lane.reader is not None and lane.is_writable)
    return is_read and lane.observed.measured[0] is None


def unanswered(lane: Lane, now: float, silent: float = inf) -> Unanswered:
    """Return how long the lane's responses have been overdue at `now` (monotonic seconds).

    A connection carries the requests of many lanes, and the broker responds in order. `silent`: as in
    `MeasurementInterval`, for the destination. Before the first batch, an overdue response to any request,
    such as for a producer id, counts as an overdue produce response.
    """
    fetch, produce = 0.0, now - max(lane.ownership.claimed_at, silent)
    if lane.reader is not None and not lane.read.waits:
        fetch = now - lane.reader.unanswered_since()
    if lane.queue.in_flight and lane.writer is not None:
        sent = [item.sent_at for item in lane.queue.sent if isinstance(item, OutBatch) and item.outstanding]
        produce = now - max(lane.writer.unanswered_since(), min(sent, default=now))
    if max(fetch, produce) < _OVERDUE_SECONDS:
        return ANSWERED
    return Unanswered(_overdue(fetch), _overdue(produce))


def windows_of(lane: Lane) -> LaneWindows:
    """Return the limits that socket buffers of brokers impose on the lane's rate."""
    return LaneWindows(
        lane.reader.window_limit() if lane.reader is not None and not lane.read.waits else None,
        lane.writer.window_limit(lane) if lane.writer is not None and lane.queue.in_flight else None,
    )


def _overdue(seconds: float) -> float | None:
    return seconds if seconds >= _OVERDUE_SECONDS else None


def lag_ms(lane: Lane, now_ms: int, *, has_response: bool) -> int | None:
    """Return the age in ms of the oldest readable source record that is not acknowledged.

    Returns 0 without such a record, None if the age is unknown. `has_response`: result of the function
    `has_response`. The age of a fetched record is that of the first record in its batch. A record that was
    not fetched yet is younger than the records delivered before it, and arrived after the lane last reached
    the end of the log. Timestamps of wrong clocks are corrected (`AppendTimes`). A record without a timestamp
    has no age.
    """
    if lane.read.high_watermark < 0:
        return None
    times = lane.read.times
    for item in (*lane.queue.sent, *lane.queue.unsent):
        if isinstance(item, OutBatch) and not item.acknowledged:
            return age_ms(now_ms, times.appended_ms(item.first_timestamp, item.appended))
    if lane.read.position >= lane.read.readable_end:
        return 0 if has_response else None
    offset, timestamp = lane.read.waiting
    if offset >= lane.read.position:
        return age_ms(now_ms, times.appended_ms(timestamp, times.span(offset, offset)))
    return age_ms(now_ms, max(lane.observed.delivered_ms, lane.read.caught_up_ms))
