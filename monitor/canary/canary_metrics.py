"""Prometheus metrics of canaries, with the names of Xinfra (Kafka Monitor); delays are in seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.model.identifiers import DatastreamName
from monitor.canary.ledger import CanaryFigures

_PREFIX: Final = "headrace_canary_"
_SECONDS: Final = 0.001
_COUNTERS: Final = (
    ("records_produced", "produced", "canary records acknowledged by the source"),
    ("records_consumed", "consumed", "canary records read at the destination"),
    ("records_lost", "lost", "acknowledged canary records that did not arrive"),
    ("records_duplicated", "duplicated", "canary records that arrived again"),
    ("records_out_of_order", "out_of_order", "canary records that arrived after a later record"),
    ("produce_errors", "failed", "writes of canary records that were not acknowledged"),
)
_GAUGES: Final = (
    (
        "produce_availability_avg",
        "produce_availability",
        1.0,
        "share of writes acknowledged in the last minute",
    ),
    (
        "consume_availability_avg",
        "consume_availability",
        1.0,
        "share of canary records that arrived within 10 s, of those due in the last minute",
    ),
    (
        "records_delay_seconds_avg",
        "delay_ms_avg",
        _SECONDS,
        "mean delay of canary records in the last minute",
    ),
    (
        "records_delay_seconds_max",
        "delay_ms_max",
        _SECONDS,
        "highest delay in the last minute, waiting records included",
    ),
)
"""Name, field of `CanaryFigures`, factor, and description of each metric."""


class CanaryMetrics(Collector):
    """Prometheus collector for the canaries of this monitor. Unknown values are not exported.

    `show` is thread-safe.
    """

    def __init__(self) -> None:
        self._figures: Mapping[DatastreamName, CanaryFigures] = {}

    def show(self, figures: Mapping[DatastreamName, CanaryFigures]) -> None:
        """Replace the values of all canaries. Pass an empty mapping if this monitor is not active."""
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of all canaries for a scrape."""
        shown = self._figures
        for name, field, text in _COUNTERS:
            counter = CounterMetricFamily(f"{_PREFIX}{name}", text, labels=("datastream",))
            for datastream, figures in shown.items():
                counter.add_metric([datastream], getattr(figures, field))
            yield counter
        for name, field, factor, text in _GAUGES:
            gauge = GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=("datastream",))
            for datastream, figures in shown.items():
                if (value := getattr(figures, field)) is not None:
                    gauge.add_metric([datastream], value * factor)
            yield gauge
