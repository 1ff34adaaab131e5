"""What the monitor says of its alerts and of objectives, for Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from monitor.alerts.alert import Alert
from monitor.alerts.catalogue import CATALOGUE
from monitor.objectives.metrics import ObjectiveMetrics

_BY_RECEIVER: Final = ("receiver",)


class AlertMetrics:
    """One registry for the whole monitor."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.objectives = ObjectiveMetrics()
        self.registry.register(self.objectives)
        self._firing = self._gauge("firing", "Alerts that fire, silenced ones included", ("alertname",))
        self._silenced = self._gauge("silenced", "Alerts that fire and are silenced", ())
        self._sent = self._counter("sent", "Alerts that receivers have taken, by state: firing, resolved")
        self._failed = self._counter("failed", "Alerts of attempts that a receiver did not take")
        self._dropped = self._counter("dropped", "Alerts for which a receiver's queue had no room")
        self._waiting = self._gauge(
            "waiting", "Alerts whose newest state the receiver was not told", _BY_RECEIVER
        )

    def _gauge(self, name: str, text: str, labels: tuple[str, ...]) -> Gauge:
        return Gauge(f"headrace_alerts_{name}", text, labels, registry=self.registry)

    def _counter(self, name: str, text: str) -> Counter:
        labels = ("receiver", "state") if name == "sent" else _BY_RECEIVER
        return Counter(f"headrace_alerts_{name}", text, labels, registry=self.registry)

    def watch(self, receiver: str, waiting: Callable[[], int]) -> None:
        """Show a receiver from now on; it is asked whenever the metrics are."""
        self._waiting.labels(receiver).set_function(lambda: float(waiting()))
        for counter in (self._failed, self._dropped):
            counter.labels(receiver)

    def show(self, firing: Iterable[Alert], silenced: int) -> None:
        """What fires now."""
        found = Tally(one.kind.name for one in firing)
        for kind in CATALOGUE:
            self._firing.labels(kind.name).set(found[kind.name])
        self._silenced.set(silenced)

    def retire(self) -> None:
        """Nothing fires and nothing is judged here any more: the monitor that judges now says it."""
        self.show((), 0)
        self.objectives.show({})

    def count_sent(self, receiver: str, firing: int, resolved: int) -> None:
        """A message was taken."""
        self._sent.labels(receiver, "firing").inc(firing)
        self._sent.labels(receiver, "resolved").inc(resolved)

    def count_failed(self, receiver: str, alerts: int) -> None:
        """A message was not taken."""
        self._failed.labels(receiver).inc(alerts)

    def count_dropped(self, receiver: str, alerts: int) -> None:
        """There was no room for them."""
        self._dropped.labels(receiver).inc(alerts)
