"""Prometheus metrics of an instance, read from its status when they are scraped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from api.services import InstanceStatus
from mirror.instance.supervisor import LaneState


class InstanceCollector(Collector):
    """Aggregates by datastream, so that the size of a scrape does not grow with partitions."""

    def __init__(self, status: InstanceStatus) -> None:
        self._status = status

    def describe(self) -> Iterator[Metric]:
        """Nothing is registered ahead of a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """One scrape."""
        status = self._status
        yield _gauge("headrace_leader", "1 where this instance leads", float(status.is_leading))
        yield _gauge("headrace_plan_epoch", "epoch of the plan that is obeyed", float(status.epoch))
        parts = GaugeMetricFamily("headrace_part_healthy", "1 where the part is well", labels=["part"])
        for part, condition in status.conditions.items():
            parts.add_metric([part], float(condition.is_well))
        yield parts
        yield from _lane_metrics(tuple(status.lanes.values()))


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _lane_metrics(lanes: tuple[LaneState, ...]) -> Iterator[Metric]:
    count = GaugeMetricFamily("headrace_lanes", "lanes by phase", labels=["datastream", "phase"])
    for (group, phase), number in Counter((one.spec.key.group, one.phase.value) for one in lanes).items():
        count.add_metric([group, phase], number)
    yield count
    rate = GaugeMetricFamily("headrace_bytes_per_second", "bytes copied", labels=["datastream"])
    records = GaugeMetricFamily("headrace_records_per_second", "records copied", labels=["datastream"])
    lag = GaugeMetricFamily("headrace_lag_records", "records behind the source", labels=["datastream"])
    age = GaugeMetricFamily(
        "headrace_lag_seconds", "age of the oldest record that is not copied yet", labels=["datastream"]
    )
    for group in sorted({one.spec.key.group for one in lanes}):
        rates = [one.rate for one in lanes if one.spec.key.group == group and one.rate is not None]
        rate.add_metric([group], sum(one.bytes_per_second for one in rates))
        records.add_metric([group], sum(one.messages_per_second for one in rates))
        lag.add_metric([group], sum(one.lag_records for one in rates))
        age.add_metric([group], max((one.lag_ms for one in rates), default=0) / 1000)
    yield from (rate, records, lag, age)
