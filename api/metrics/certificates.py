"""Remaining validity of certificates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mirror.ports import Clock
from mirror.tls import CertificateValidity


class CertificateCollector(Collector):
    """Validity of the files as they are at a scrape: they may be replaced at any time."""

    def __init__(self, certificates: Callable[[], Iterable[CertificateValidity]], clock: Clock) -> None:
        self._certificates = certificates
        self._clock = clock

    def describe(self) -> Iterator[Metric]:
        """Describe no metrics before a scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of one scrape."""
        family = GaugeMetricFamily(
            "headrace_certificate_expires_in_seconds",
            "seconds until a certificate file expires, negative afterwards; no sample for an unreadable file",
            labels=["setting"],
        )
        for one in self._certificates():
            left = one.seconds_left(self._clock.now_ms())
            if left is not None:
                family.add_metric([one.setting], left)
        yield family
