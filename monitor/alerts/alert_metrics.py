"""Prometheus metrics of alerts and objectives."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import CATALOGUE
from monitor.canary.canary_metrics import CanaryMetrics
from monitor.objectives.objective_metrics import ObjectiveMetrics

_BY_RECEIVER: Final = ("receiver",)


class AlertMetrics:
    """Prometheus metrics of alerts and receivers, in one registry."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.objectives = ObjectiveMetrics()
        self.canaries = CanaryMetrics()
        for collector in (self.objectives, self.canaries):
            self.registry.register(collector)
        self._firing = self._gauge("firing", "Firing alerts, silenced ones included", ("alertname",))
        self._silenced = self._gauge("silenced", "Firing alerts that are silenced", ())
        self._sent = self._counter("sent", "Alerts accepted by the receiver, by state: firing, resolved")
        self._failed = self._counter("failed", "Alerts not accepted by the receiver, counted at each attempt")
        self._dropped = self._counter("dropped", "Alerts dropped because the receiver's queue was full")
        self._waiting = self._gauge(
            "waiting", "Alerts whose latest state has not been sent to the receiver yet", _BY_RECEIVER
        )

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"headrace_alerts_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        labels = ("receiver", "state") if name == "sent" else _BY_RECEIVER
        return Counter(f"headrace_alerts_{name}", text, labels, registry=self.registry)

    def watch(self, receiver: str, waiting: Callable[[], int]) -> None:
        """Add the metrics of a receiver. `waiting`: returns the number of pending alerts, called at each
        scrape."""
        self._waiting.labels(receiver).set_function(lambda: float(waiting()))
        for counter in (self._failed, self._dropped):
            counter.labels(receiver)

    def show(self, firing: Iterable[Alert], silenced: int) -> None:
        """Set the number of firing and silenced alerts."""
        found = Tally(alert.kind.name for alert in firing)
        for kind in CATALOGUE:
            self._firing.labels(kind.name).set(found[kind.name])
        self._silenced.set(silenced)

    def retire(self) -> None:
        """Clear the metrics of alerts, canaries and objectives, because another monitor now exports them."""
        self.show((), 0)
        self.canaries.show({})
        self.objectives.show({})

    def count_sent(self, receiver: str, firing: int, resolved: int) -> None:
        """Count the alerts of a message that a receiver has accepted."""
        self._sent.labels(receiver, "firing").inc(firing)
        self._sent.labels(receiver, "resolved").inc(resolved)

    def count_failed(self, receiver: str, alerts: int) -> None:
        """Count the alerts of a message that could not be sent."""
        self._failed.labels(receiver).inc(alerts)

    def count_dropped(self, receiver: str, alerts: int) -> None:
        """Count alerts that were dropped because the queue was full."""
        self._dropped.labels(receiver).inc(alerts)
