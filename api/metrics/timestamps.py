"""Offsets of the timestamps of topics."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

from prometheus_client.core import GaugeMetricFamily, Metric

from api.settings import MetricSettings
from mirror.instance.workers.lane_table import LaneStatus


def timestamp_offsets(lanes: Iterable[LaneStatus], settings: MetricSettings) -> Metric:
    """Return the largest offset of each topic with wrong timestamps, limited to the topics with the largest
    ones."""
    family = GaugeMetricFamily(
        "headrace_timestamp_offset_seconds",
        "seconds by which timestamps of the topic are ahead of the arrival of its records at the source,"
        " negative if they are behind; no sample if they are right or unknown",
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
