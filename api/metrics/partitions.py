"""Series by partition: of all of them, or of those that matter most."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from api.settings import MetricSettings
from mirror.instance.workers.lane_table import LaneStatus

_LABELS: Final = ("datastream", "task", "topic", "partition")
_NUMBERS: Final[Sequence[tuple[str, str, Callable[[LaneStatus], float | None]]]] = (
    (
        "headrace_partition_lag_records",
        "records of the partition behind the source",
        lambda lane: lane.lag[0],
    ),
    (
        "headrace_partition_lag_seconds",
        "age of the partition's oldest record that is not copied yet",
        lambda lane: None if lane.lag[1] is None else lane.lag[1] / 1000,
    ),
    (
        "headrace_partition_bytes_per_second",
        "bytes copied of the partition lately, as fetched",
        lambda lane: None if lane.rate is None else lane.rate.bytes_per_second,
    ),
    (
        "headrace_partition_records_per_second",
        "records copied of the partition lately",
        lambda lane: None if lane.rate is None else lane.rate.messages_per_second,
    ),
)


def partition_metrics(lanes: Collection[LaneStatus], settings: MetricSettings) -> Iterator[Metric]:
    """What is not known of a partition has no series. Beside them, how many partitions have none, so
    that a sum over a list that is cut says so."""
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
        "partitions of this instance that api.metrics.top_partitions leaves out",
        value=len(lanes) - len(chosen),
    )


def _foremost(lanes: Iterable[LaneStatus], number: int) -> tuple[LaneStatus, ...]:
    """Those that wait longest and those that carry most, each once."""
    known = [one for one in lanes if one.rate is not None]
    late = nlargest(number, (one for one in known if one.lag[1]), key=lambda one: one.lag[1] or 0)
    busy = nlargest(number, known, key=lambda one: one.rate.bytes_per_second if one.rate else 0.0)
    return tuple({one.spec.key: one for one in (*late, *busy)}.values())
