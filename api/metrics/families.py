"""Builds metric families from samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

BY_DATASTREAM: Final = ("datastream",)
BY_CLUSTER: Final = ("cluster",)
Sample = tuple[str | Sequence[str], float | None]
"""Values of the labels (a text if there is one label), and the value; None if the value is unknown."""
_Family = TypeVar("_Family", GaugeMetricFamily, CounterMetricFamily)


def gauge(name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """Return a Prometheus gauge. Unknown values have no series."""
    return _filled(GaugeMetricFamily(name, text, labels=labels), samples)


def counter(name: str, text: str, labels: Sequence[str], samples: Iterable[Sample]) -> Metric:
    """Return a Prometheus counter. Unknown values have no series."""
    return _filled(CounterMetricFamily(name, text, labels=labels), samples)


def _filled(family: _Family, samples: Iterable[Sample]) -> _Family:
    for labels, value in samples:
        if value is not None:
            family.add_metric([labels] if isinstance(labels, str) else labels, value)
    return family
