"""Prometheus metrics about partitions. For each datastream: sums, states, and the times to catch up and to
data loss. Also uncopied partitions, and series of all or of the most important partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nlargest
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from pydantic import Field

from api.metrics.families import BY_DATASTREAM, gauge
from mirror.instance.backlog.partitions import UncopiedState
from mirror.instance.backlog.watch import UncopiedLane
from mirror.instance.workers.lane_table import LanePhase, LanesInTime, LaneStatus
from mirror.model.identifiers import DatastreamName, GroupName
from mirror.options import Settings
from monitor.lane_verdicts import judged, judged_uncopied
from monitor.movement.states import LaneJudgement, MovementState

_LABELS: Final = ("datastream", "task", "topic", "partition")
_NUMBERS: Final[Sequence[tuple[str, str, Callable[[LaneStatus], float | None]]]] = (
    (
        "headrace_partition_lag_records",
        "records of the partition behind the source",
        lambda lane: lane.lag[0],
    ),
    (
        "headrace_partition_lag_seconds",
        "age of the partition's oldest record not copied yet",
        lambda lane: None if lane.lag[1] is None else lane.lag[1] / 1000,
    ),
    (
        "headrace_partition_bytes_per_second",
        "recent copy rate of the partition in bytes, as fetched",
        lambda lane: None if lane.rate is None else lane.rate.bytes_per_second,
    ),
    (
        "headrace_partition_records_per_second",
        "recent copy rate of the partition in records",
        lambda lane: None if lane.rate is None else lane.rate.messages_per_second,
    ),
)


def _foremost(lanes: Iterable[LaneStatus], number: int) -> tuple[LaneStatus, ...]:
    """Return the `number` most delayed lanes and the `number` busiest ones, without duplicates."""
    known = [lane for lane in lanes if lane.rate is not None]
    late = nlargest(number, (lane for lane in known if lane.lag[1]), key=lambda lane: lane.lag[1] or 0)
    busy = nlargest(number, known, key=lambda lane: lane.rate.bytes_per_second if lane.rate else 0.0)
    return tuple({lane.spec.key: lane for lane in (*late, *busy)}.values())


class MetricSettings(Settings):
    """Selection of the partitions that have their own series on `/metrics`.

    All other series are sums by datastream or task.
    """

    every_partition: bool = False
    """Export four series for every partition of this instance."""
    top_partitions: int = Field(default=20, ge=0, le=10_000)
    """Number of partitions with the oldest waiting records, and of those with the highest copy rate, that
    have their own series. Used if `every_partition` is false."""


def partition_metrics(lanes: Collection[LaneStatus], settings: MetricSettings) -> Iterator[Metric]:
    """Yield metrics of single partitions; unknown values have no series.

    Also yields the number of partitions without series, which shows whether a sum over the series is
    complete.
    """
    chosen = tuple(lanes) if settings.every_partition else _foremost(lanes, settings.top_partitions)
    for name, text, value in _NUMBERS:
        yield gauge(name, text, _LABELS, [(_labels(lane), value(lane)) for lane in chosen])
    yield GaugeMetricFamily(
        "headrace_partitions_without_series",
        "partitions of this instance omitted by api.metrics.top_partitions",
        value=len(lanes) - len(chosen),
    )


def timestamp_offsets(lanes: Iterable[LaneStatus], settings: MetricSettings) -> Metric:
    """Return a metric of topics with wrong record timestamps: the largest clock error in each.

    Only the topics with the largest errors are included.
    """
    worst: dict[tuple[str, str], float] = {}
    for lane in lanes:
        offset = lane.timestamp_offset_seconds
        key = lane.spec.key
        if offset and abs(offset) > abs(worst.get((key.group, key.partition.topic), 0.0)):
            worst[key.group, key.partition.topic] = offset
    most = len(worst) if settings.every_partition else settings.top_partitions
    largest = nlargest(most, worst.items(), key=lambda item: abs(item[1]))
    return gauge(
        "headrace_timestamp_offset_seconds",
        "seconds by which timestamps of the topic are ahead of the arrival of its records at the source,"
        " negative if they are behind; no sample if they are correct or unknown",
        ("datastream", "topic"),
        largest,
    )


def _labels(lane: LaneStatus) -> Sequence[str]:
    topic, partition = lane.spec.key.partition
    return lane.spec.key.group, lane.spec.task, topic, str(partition)


def lane_metrics(lanes: Collection[LaneStatus]) -> Iterator[Metric]:
    """Yield sums over the lanes of this instance for each datastream; unknown values have no series."""
    phases = Counter((lane.spec.key.group, lane.phase.value) for lane in lanes)
    yield gauge("headrace_lanes", "lanes by phase", ("datastream", "phase"), phases.items())
    by_group: defaultdict[GroupName, list[LaneStatus]] = defaultdict(list)
    for lane in lanes:
        by_group[lane.spec.key.group].append(lane)
    groups = sorted(by_group.items())
    held = [(group, sum(bool(lane.held_back) for lane in mine)) for group, mine in groups]
    yield gauge("headrace_held_back_lanes", "copying lanes throttled by a quota", BY_DATASTREAM, held)
    rates = {group: [lane.rate for lane in mine if lane.rate is not None] for group, mine in groups}
    size = [(group, sum(rate.bytes_per_second for rate in mine)) for group, mine in rates.items()]
    yield gauge("headrace_bytes_per_second", "bytes copied", BY_DATASTREAM, size)
    records = [(group, sum(rate.messages_per_second for rate in mine)) for group, mine in rates.items()]
    yield gauge("headrace_records_per_second", "records copied", BY_DATASTREAM, records)
    lags = {
        group: [lane.lag for lane in mine if lane.phase is not LanePhase.STOPPING] for group, mine in groups
    }
    waiting = [(group, _at_least(sum, [records for records, _ in mine])) for group, mine in lags.items()]
    yield gauge("headrace_lag_records", "records that wait at the source", BY_DATASTREAM, waiting)
    oldest_ms = [(group, _at_least(max, [age_ms for _, age_ms in mine])) for group, mine in lags.items()]
    ages = [(group, None if age_ms is None else age_ms / 1000) for group, age_ms in oldest_ms]
    yield gauge("headrace_lag_seconds", "age of the oldest record not copied yet", BY_DATASTREAM, ages)


def _at_least(combine: Callable[[list[int]], int], numbers: Sequence[int | None]) -> int | None:
    """Combine the known numbers with `combine`. Return None if the result is 0 and some numbers are
    unknown."""
    known = [number for number in numbers if number is not None]
    value = combine(known) if known else None
    return value if value or len(known) == len(numbers) else None


def movement_metrics(lanes: LanesInTime, uncopied: Sequence[UncopiedLane], now: float) -> Iterator[Metric]:
    """Yield metrics of each datastream about the progress of its partitions. `now`: monotonic seconds."""
    counts: Counter[tuple[GroupName, MovementState]] = Counter()
    losses = {group: max(at - now, 0.0) for group, at in lanes.loss_at.items()}
    ends: dict[GroupName, float] = {}
    losing: Counter[GroupName] = Counter()
    shares: dict[GroupName, float] = {}
    for group, position in _found(lanes.others.values(), uncopied, now):
        if position.state is not None:
            counts[group, position.state] += 1
        if position.seconds_to_loss is not None:
            losses[group] = min(position.seconds_to_loss, losses.get(group, position.seconds_to_loss))
        if position.eta_seconds is not None:
            ends[group] = max(position.eta_seconds, ends.get(group, position.eta_seconds))
        losing[group] += position.loses_data
        if position.loses_data and position.backlog_share is not None:
            shares[group] = max(position.backlog_share, shares.get(group, 0.0))
    for group, number in lanes.counts.items():
        counts[group, MovementState.OK] += number
        losing[group] += 0
    yield gauge(
        "headrace_partitions",
        "partitions by state of movement",
        ("datastream", "state"),
        sorted(counts.items()),
    )
    yield _by_group(
        "headrace_partitions_losing_data",
        "partitions whose records retention will delete before they are copied",
        losing,
    )
    yield _by_group(
        "headrace_losing_backlog_ratio",
        "uncopied share of the records that the source retains: maximum over the partitions that lose data",
        shares,
    )
    yield _by_group(
        "headrace_time_to_loss_seconds", "time until the source first deletes an uncopied record", losses
    )
    yield _by_group("headrace_catch_up_seconds", "time until the last partition has caught up", ends)


def _found(
    lanes: Iterable[LaneStatus], uncopied: Sequence[UncopiedLane], now: float
) -> Iterator[tuple[GroupName, LaneJudgement]]:
    for lane in lanes:
        yield lane.spec.key.group, judged(lane, now)
    for other in uncopied:
        yield other.what.group, judged_uncopied(other, now)


def _by_group(name: str, text: str, values: Mapping[GroupName, float]) -> Metric:
    return gauge(name, text, BY_DATASTREAM, sorted(values.items()))


def uncopied_metrics(
    uncopied: Sequence[UncopiedLane], lanes: Sequence[LaneStatus], now_ms: int
) -> Iterator[Metric]:
    """Yield metrics of uncopied partitions. Only the leader reports partitions paused by users, without a
    task, or excluded by rules. An instance reports its own lanes that have paused automatically."""
    every: defaultdict[DatastreamName, list[UncopiedLane]] = defaultdict(list)
    by_state = {state: defaultdict[DatastreamName, list[UncopiedLane]](list) for state in UncopiedState}
    for lane in uncopied:
        every[lane.what.datastream].append(lane)
        by_state[lane.what.state][lane.what.datastream].append(lane)
    paused = by_state[UncopiedState.PAUSED]
    itself = Counter(status.spec.key.group for status in lanes if status.phase is LanePhase.PAUSED)
    yield gauge(
        "headrace_paused_partitions",
        "partitions paused by a user, or by the lane itself",
        ("datastream", "by"),
        [
            *(((name, "person"), len(found)) for name, found in paused.items()),
            *(((group, "itself"), count) for group, count in itself.items()),
        ],
    )
    yield gauge(
        "headrace_paused_seconds",
        "age of the oldest pause by a user; reported by the leader",
        BY_DATASTREAM,
        [(name, _oldest_seconds(found, now_ms)) for name, found in paused.items()],
    )
    for state, metric, text in (
        (UncopiedState.UNPLACED, "headrace_unplaced_partitions", "partitions without a running task"),
        (UncopiedState.LEFT_OUT, "headrace_left_out_partitions", "partitions excluded by a rule"),
    ):
        counts = [(name, len(found)) for name, found in by_state[state].items()]
        yield gauge(metric, f"{text}; reported by the leader", BY_DATASTREAM, counts)
    for metric, text, combine, number in _DISTANCES:
        sums = [(name, _if_known(combine, map(number, found))) for name, found in every.items()]
        yield gauge(metric, f"{text}; reported by the leader", BY_DATASTREAM, sums)


_DISTANCES: Final[
    Sequence[tuple[str, str, Callable[[list[int]], int], Callable[[UncopiedLane], int | None]]]
] = (
    (
        "headrace_uncopied_lag_records",
        "records waiting at the source in uncopied partitions",
        sum,
        lambda lane: lane.lag_records,
    ),
    (
        "headrace_uncopied_retained_records",
        "copied records that retention will delete before it reaches an uncopied record: minimum over the"
        " partitions",
        min,
        lambda lane: lane.retained_records,
    ),
    (
        "headrace_uncopied_lost_records",
        "records deleted at the source before they were copied",
        sum,
        lambda lane: lane.lost_records,
    ),
)
"""Name, help text, the function that combines the numbers, and the number of an uncopied partition."""


def _oldest_seconds(paused: Iterable[UncopiedLane], now_ms: int) -> float | None:
    since = [lane.what.since_ms for lane in paused if lane.what.since_ms is not None]
    return max(now_ms - min(since), 0) / 1000 if since else None


def _if_known(combine: Callable[[list[int]], int], numbers: Iterable[int | None]) -> int | None:
    """Combine numbers with `combine`. Return None if one is unknown, because a partial sum would mislead."""
    found = list(numbers)
    known = [number for number in found if number is not None]
    return combine(known) if len(known) == len(found) else None
