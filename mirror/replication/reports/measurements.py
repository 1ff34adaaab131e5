"""Measurements of lanes, as records for the metrics topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from types import MappingProxyType
from typing import Final, NamedTuple

from mirror.lane.lane import Lane
from mirror.lane.out_batch import OutBatch
from mirror.model.datastreams.lanes import ANSWERED, Unanswered
from mirror.model.identifiers import ClusterRef
from mirror.model.metrics import LATENCY_BUCKETS, MirrorMetric, age_ms
from mirror.model.movement.excuses import ExcusedLane
from mirror.replication.live_lane import LiveLane
from mirror.replication.reports.copy_costs import cost_of

_NO_LATENCY: Final = (0,) * LATENCY_BUCKETS
_NONE_SILENT: Final[Mapping[ClusterRef, float]] = MappingProxyType({})
_HEARD_SECONDS: Final = 15.0
"""Validity of an end that the source has named."""
_OVERDUE_SECONDS: Final = 1.0
"""An answer that has been due for less is on its way."""


class Interval(NamedTuple):
    """When and by whom it was measured: end and length in ms, the instance; `now`: the end in monotonic
    seconds; `asked`: likewise, when the answer was due to the oldest request for records, or with records,
    that any broker got; `silent`: `Cluster.silent_since` of those that have not answered something."""

    end_ms: int
    length_ms: int
    instance: str
    now: float
    asked: float = -inf
    silent: Mapping[ClusterRef, float] = _NONE_SILENT

    @property
    def is_answered(self) -> bool:
        """Whether no answer is overdue."""
        return self.now - self.asked < _OVERDUE_SECONDS


def take_metric(lane: LiveLane, interval: Interval) -> MirrorMetric | None:
    """What the lane did since the last call. None before the source has answered, and when it did nothing,
    has nothing to do and has said so: a reader that keeps a lane's last report must not keep an old one.

    CPU times are those of `cost_of`; `share_cpu` makes them the worker's."""
    if lane.high_watermark < 0:
        return None
    lag = lag_records(lane)
    age = lag_ms(lane, interval.end_ms, is_heard=is_heard(lane, interval.now))
    if lane.excused is not None:
        lane.excused.note(lag, interval.end_ms)
    counters = lane.take_counters()
    silent = interval.silent.get(lane.spec.destination, inf) if lane.is_identifying else inf
    is_answered = interval.is_answered and silent == inf
    lane.overdue = ANSWERED if is_answered else unanswered(lane, interval.now, silent)
    lane.measured = age, counters.records_copied, counters.bytes_copied
    is_busy = bool(counters.batches or lag)
    before, lane.was_measured = lane.was_measured, (is_busy, age is None, lane.overdue != ANSWERED)
    if not is_busy and before == lane.was_measured:
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


def counted_metric(excused: ExcusedLane, metric: MirrorMetric) -> MirrorMetric:
    """Return a measurement as it counts against objectives."""
    age = excused.counted_age(metric.lag_ms, metric.time_ms)
    return metric if age == metric.lag_ms else replace(metric, lag_ms=age)


def lag_records(lane: Lane) -> int:
    """Records at the source that are not at the destination, as far as the last answer says."""
    return max(lane.high_watermark - lane.checkpoint, 0) if lane.high_watermark >= 0 else 0


def is_heard(lane: LiveLane, now: float) -> bool:
    """Whether the source would have said by `now`, in monotonic seconds, that it has more for the lane: not
    where its answers come late. It is not asked for a lane that waits for something else; of one that waits
    for a quota its end is asked for beside that."""
    if lane.waits:
        return now - lane.heard_at < _HEARD_SECONDS
    reader = lane.reader
    return reader is not None and lane.is_writable and reader.is_current(now)


def unanswered(lane: LiveLane, now: float, silent: float = inf) -> Unanswered:
    """What it has waited for at `now`, in monotonic seconds. One connection carries the questions of many
    lanes, and its broker answers them in order. `silent`: as of `Interval`, of its destination. Before its
    first batch a lane asks that for a producer id and more, on several connections: while any of them waits,
    the lane's produce does."""
    fetch, produce = 0.0, now - max(lane.identity_asked_at, silent)
    if lane.reader is not None and not lane.waits:
        fetch = now - lane.reader.unanswered_since()
    if lane.in_flight and lane.writer is not None:
        sent = [item.sent_at for item in lane.sent if isinstance(item, OutBatch) and item.outstanding]
        produce = now - max(lane.writer.unanswered_since(), min(sent, default=now))
    if max(fetch, produce) < _OVERDUE_SECONDS:
        return ANSWERED
    return Unanswered(_overdue(fetch), _overdue(produce))


def _overdue(seconds: float) -> float | None:
    return seconds if seconds >= _OVERDUE_SECONDS else None


def lag_ms(lane: Lane, now_ms: int, *, is_heard: bool) -> int | None:
    """Age of the oldest record that can be read at the source and is not acknowledged; 0 when there is none,
    None where it is not known. `is_heard`: the source would have said if there were more.

    Of a batch in hand, or that was, it is the age of its first record. A record that was never in hand is
    younger than what was delivered before it, and came after the lane was at the end. A time that is
    still to come, or none, says nothing of an age.
    """
    if lane.high_watermark < 0:
        return None
    for item in (*lane.sent, *lane.queue):
        if isinstance(item, OutBatch) and not item.acknowledged:
            return age_ms(now_ms, item.first_timestamp)
    if lane.position >= lane.readable_end:
        return 0 if is_heard else None
    offset, timestamp = lane.waiting
    if offset >= lane.position:
        return age_ms(now_ms, timestamp)
    return age_ms(now_ms, max(lane.delivered_ms, lane.caught_up_ms))
