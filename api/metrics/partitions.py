"""Prometheus series by partition or topic, for all or only the most important partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from pydantic import Field

from mirror.instance.workers.lane_table import LaneStatus
from mirror.options import Settings

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
    """Return the most delayed lanes and the busiest lanes, without duplicates."""
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
    """Yield metrics by partition; unknown values have no series.

    Also yields the number of partitions without series, which shows whether a sum over the series is
    complete.
    """
    chosen = tuple(lanes) if settings.every_partition else _foremost(lanes, settings.top_partitions)
    for name, text, value in _NUMBERS:
        family = GaugeMetricFamily(name, text, labels=_LABELS)
        for lane in chosen:
            number = value(lane)
            if number is not None:
                topic, partition = lane.spec.key.partition
                family.add_metric([lane.spec.key.group, lane.spec.task, topic, str(partition)], number)
        yield family
    yield GaugeMetricFamily(
        "headrace_partitions_without_series",
        "partitions of this instance omitted by api.metrics.top_partitions",
        value=len(lanes) - len(chosen),
    )


def timestamp_offsets(lanes: Iterable[LaneStatus], settings: MetricSettings) -> Metric:
    """Return the largest clock error of topics with wrong timestamps.

    Only the topics with the largest errors are included.
    """
    family = GaugeMetricFamily(
        "headrace_timestamp_offset_seconds",
        "seconds by which timestamps of the topic are ahead of the arrival of its records at the source,"
        " negative if they are behind; no sample if they are correct or unknown",
        labels=["datastream", "topic"],
    )
    worst: dict[tuple[str, str], float] = {}
    for lane in lanes:
        offset = lane.timestamp_offset_seconds
        key = lane.spec.key
        if offset and abs(offset) > abs(worst.get((key.group, key.partition.topic), 0.0)):
            worst[key.group, key.partition.topic] = offset
    most = len(worst) if settings.every_partition else settings.top_partitions
    for (group, topic), offset in nlargest(most, worst.items(), key=lambda item: abs(item[1])):
        family.add_metric([group, topic], offset)
    return family
