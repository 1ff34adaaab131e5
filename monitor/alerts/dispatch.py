"""Passes alerts to receivers after each evaluation. Implements `monitor.evaluation.EvaluationListener`; never
blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from mirror.bulkheads import Bulkhead
from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.model.identifiers import DatastreamName
from mirror.model.reasons import reason_of
from mirror.ports import Clock
from monitor.alerts.alert import Alert, AlertKey, Style
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.catalogue import RECEIVER_AWAY, WATCHDOG, ClockReading
from monitor.alerts.conditions import Conditions
from monitor.alerts.deliveries.delivery import Delivery
from monitor.alerts.silence import Silence, silence_of
from monitor.alerts.stored_alerts import InheritedAlert
from monitor.evaluation import Evaluation
from monitor.movement.summary import FleetMovement
from monitor.records.record import IncidentRecord

_log = get_logger(__name__)


class AlertDispatch:
    """Passes the firing alerts to every receiver after each evaluation. Not thread-safe.

    `silences`: returns the current silences; called in each evaluation.
    """

    def __init__(
        self,
        conditions: Conditions,
        style: Style,
        silences: Callable[[], Sequence[Silence]],
        deliveries: Sequence[Delivery],
        clock: Clock,
        metrics: AlertMetrics,
    ) -> None:
        self._conditions = conditions
        self._style = style
        self._silences = silences
        self._deliveries = deliveries
        self._clock = clock
        self._metrics = metrics
        self._began_ms = clock.now_ms()
        self._sources: Sequence[Callable[[int], Sequence[Alert]]] = ()
        self._observed: dict[int, Sequence[Alert]] = {}
        """Last alerts of each source, by position in `_sources`."""
        self._firing: dict[AlertKey, Alert] = {}
        self._silenced: dict[AlertKey, Silence] = {}

    def watch(self, *sources: Callable[[int], Sequence[Alert]]) -> None:
        """Set further sources of alerts, called at each evaluation with the time in epoch ms. The last alerts
        of a source that raises continue."""
        self._sources = sources

    def start(self) -> None:
        """Start delivering alerts to all receivers."""
        for delivery in self._deliveries:
            delivery.start()

    def stop(self, deadline_seconds: float) -> None:
        """Try to send the pending alerts of each receiver once, in parallel, and stop. Idempotent."""
        ends_at = self._clock.monotonic() + deadline_seconds
        for delivery in self._deliveries:
            delivery.stop(0.0)
        for delivery in self._deliveries:
            delivery.stop(max(0.0, ends_at - self._clock.monotonic()))

    def expect_past(self) -> None:
        """Delay alerts about burning error budgets until `remember` is called."""
        self._conditions.expect_past()

    def remember(self, records: Iterable[IncidentRecord]) -> None:
        """Pass on the incidents that a previous monitor has stored recently, including closed incidents."""
        self._conditions.remember(records, self._now())

    def resume(self, alerts: Iterable[InheritedAlert]) -> None:
        """Continue the alerts of a previous monitor. Receivers that have accepted an alert do not get it
        again."""
        found = list(alerts)
        receivers = {inherited.alert.key: inherited.receivers for inherited in found}
        self._continue(
            self._conditions.resume((inherited.alert for inherited in found), self._now()), receivers
        )

    def _continue(self, alerts: Sequence[Alert], receivers: Mapping[AlertKey, Collection[str]]) -> None:
        self._firing |= {alert.key: alert for alert in alerts}
        for delivery in self._deliveries:
            notices = {alert.key: self._style.notice(alert) for alert in alerts if _is_for(delivery, alert)}
            known = {notice.key for key, notice in notices.items() if delivery.name in receivers.get(key, ())}
            delivery.restore(notices.values(), known)

    @property
    def firing(self) -> Sequence[Alert]:
        """Alerts that fire since the last evaluation, including silenced alerts."""
        return list(self._firing.values())

    @property
    def accepted(self) -> Mapping[AlertKey, Sequence[str]]:
        """Map each firing alert to the names of the receivers that have accepted it."""
        by_name = {delivery.name: delivery.accepted for delivery in self._deliveries}
        keys = {key: self._style.notice(alert).key for key, alert in self._firing.items()}
        return {
            key: sorted(name for name, delivered in by_name.items() if notice in delivered)
            for key, notice in keys.items()
        }

    def judged(self, findings: Mapping[DatastreamName, Evaluation], movements: FleetMovement) -> None:
        """Process an evaluation: the finding about each datastream, and the states of partitions."""
        now = self._now()
        self._metrics.objectives.show({name: finding.verdict for name, finding in findings.items()})
        self._publish(self._conditions.judged(findings, now, movements, self._own()), now)

    def judging_failed(self, reason: str, movements: FleetMovement) -> None:
        """Process an evaluation that has no verdict on any datastream."""
        now = self._now()
        self._metrics.objectives.show({})
        self._publish(self._conditions.judging_failed(reason, now, movements, self._own()), now)

    def _own(self) -> list[Alert]:
        """Return the alerts about the monitor and its receivers, and those of further sources."""
        found = [
            Alert(
                RECEIVER_AWAY,
                f"{delivery.name} does not accept alerts",
                delivery.failure,
                0,
                receiver=delivery.name,
            )
            for delivery in self._deliveries
            if delivery.failure
        ]
        if any(delivery.takes_watchdog for delivery in self._deliveries):
            found.append(Alert(WATCHDOG, "the monitor is running", "this alert always fires", self._began_ms))
        for place, source in enumerate(self._sources):
            with Bulkhead(_log_source):
                self._observed[place] = source(self._clock.now_ms())
            found += self._observed.get(place, ())
        return found

    def _now(self) -> ClockReading:
        return ClockReading(self._clock.now_ms(), self._clock.monotonic())

    def _publish(self, alerts: Sequence[Alert], now: ClockReading) -> None:
        former, self._firing = self._firing, {alert.key: alert for alert in alerts}
        ended = [alert for key, alert in former.items() if not _is_same_notice(alert, self._firing.get(key))]
        for alert in alerts:
            if not _is_same_notice(alert, former.get(alert.key)):
                _log.warning("alert firing", **_names_of(alert), reason=alert.description)
        for alert in ended:
            _log.info("alert resolved", **_names_of(alert))
        self._silence(now.ms)
        unseen = self._silenced.keys() | self._conditions.inherited | self._conditions.inhibited
        styled = [(alert, self._style.notice(alert)) for alert in alerts if alert.key not in unseen]
        over = [(alert, self._style.notice(alert, now.ms)) for alert in ended]
        for delivery in self._deliveries:
            firing = {notice.key: notice for alert, notice in styled if _is_for(delivery, alert)}
            delivery.offer(firing, [notice for alert, notice in over if _is_for(delivery, alert)])
        self._metrics.show(alerts, len(self._silenced))

    def _silence(self, now_ms: int) -> None:
        silences, former = self._silences(), self._silenced
        covered = {key: silence_of(alert, silences, now_ms) for key, alert in self._firing.items()}
        self._silenced = {key: silence for key, silence in covered.items() if silence is not None}
        for key, silence in self._silenced.items():
            if former.get(key) != silence:
                _log.info("alert silenced", **_names_of(self._firing[key]), reason=silence.reason)


def _log_source(error: Exception) -> None:
    trace = None if isinstance(error, HeadraceError) else error
    _log.warning("a source of alerts failed; its alerts continue", reason=reason_of(error), exc_info=trace)


def _is_same_notice(alert: Alert, other: Alert | None) -> bool:
    """Return whether the labels of both alerts are equal, so that receivers treat them as one. The labels of
    a datastream that was created again with another source differ."""
    return other is not None and other.cluster == alert.cluster


def _is_for(delivery: Delivery, alert: Alert) -> bool:
    """Return whether a receiver should get the alert. A receiver gets the watchdog alert only if configured,
    and never gets alerts about itself."""
    if alert.kind is WATCHDOG:
        return delivery.takes_watchdog
    return not alert.receiver or alert.receiver != delivery.name


def _names_of(alert: Alert) -> dict[str, str]:
    names = {"alertname": alert.kind.name, "datastream": alert.datastream, "receiver": alert.receiver}
    names |= {"cluster": alert.key.cluster, "topic": alert.topic}
    return {name: value for name, value in names.items() if value}
