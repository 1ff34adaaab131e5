"""Builds monitors from the settings.

Pinot's client and the REST interface are imported on demand. The monitor inside an instance also works
without the extra `pinot`, and the monitor of a command does not use the REST interface.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.console.client import RestClient
from headrace.errors import requirements_of
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import ConfigError, InvalidRequest
from mirror.model.capacity.freeze import read_freeze
from mirror.ports import Clock
from monitor.actions import ActingPolicy
from monitor.adapters.control_service import ControlService, Instances
from monitor.adapters.leases import HeldLease
from monitor.adapters.rest_service import RestService
from monitor.adapters.topic_measurements import LONGEST_SECONDS, TopicMeasurements
from monitor.burn.rates import read_rule
from monitor.cycle import MonitorCycle
from monitor.fallback import FallbackMeasurements, FallbackPast
from monitor.incidents import IncidentPolicy
from monitor.objectives.budgets import Budgets
from monitor.objectives.past import PastMeasurements
from monitor.ports import Measurements, Service
from monitor.records.deliveries import DeliveryCounts
from monitor.settings import MeasurementPlace, MonitorSettings

if TYPE_CHECKING:
    from api.services import Services


def service_client(settings: HeadraceSettings, at: str) -> RestClient:
    """Return a client of the monitored service. Raises InvalidRequest for an invalid address.

    `at`: address of the service, by default the configured address.
    """
    return RestClient(settings.service_address(at or settings.monitor.service), settings=settings.commands)


def build_monitor(settings: HeadraceSettings, at: str) -> MonitorCycle:
    """Build the monitor of a service from the settings.

    Raises the errors of `service_client`; ModuleNotFoundError without the extra `monitor`.
    """
    return _monitor_of(RestService(service_client(settings, at)), settings, has_pinot=True)


def build_own_monitor(settings: HeadraceSettings, services: Services) -> MonitorCycle:
    """Build a monitor inside an instance. Raises InvalidRequest, ConfigError.

    Without Pinot's client, the monitor reads the metrics topic.
    """
    from api.resources.lanes import LanesNow
    from api.resources.movement import FleetMovements

    service = ControlService(
        services.control,
        services.problems.all,
        services.previews.preview,
        HeldLease(services.acting, services.control, services.status.name),
        Instances(FleetMovements(services), LanesNow(services).of),
        services.incidents,
    )
    return _monitor_of(service, settings, has_pinot=_is_pinot_installed())


def _is_pinot_installed() -> bool:
    try:
        import pinot.client  # noqa: F401 - only checks that it can be imported
    except ModuleNotFoundError:
        return False
    return True


def _monitor_of(service: Service, settings: HeadraceSettings, *, has_pinot: bool) -> MonitorCycle:
    clock, monitor = SystemClock(), settings.monitor
    written = _written(settings, clock, has_pinot=has_pinot)
    measurements = _measurements(settings, clock, written) if has_pinot else written
    assert measurements is not None, "the topic is the only source without Pinot"
    stored = _stored_past(settings, clock) if has_pinot else None
    budgets = _budgets(monitor, clock, stored, written)
    return MonitorCycle(service, measurements, _policy(monitor), clock, monitor.window_seconds, budgets)


def _policy(monitor: MonitorSettings) -> IncidentPolicy:
    acting = ActingPolicy(
        monitor.act,
        monitor.mode,
        monitor.most_a_day,
        monitor.most_a_day_of_each,
        tuple(read_freeze(window) for window in monitor.freeze_windows),
    )
    return IncidentPolicy(
        monitor.open_after, monitor.close_after, monitor.cooldown_seconds, acting, monitor.close_seconds
    )


def _budgets(
    monitor: MonitorSettings, clock: Clock, stored: _StoredPast | None, written: TopicMeasurements | None
) -> Budgets | None:
    """Build the error budgets of objectives; None if they cannot be computed.

    Without Pinot, budgets are computed from the measurements in `written`, and only for rules with windows of
    at most one hour. Returns None if every rule has a longer window.
    """
    rules = [read_rule(text) for text in monitor.burn_rates]
    if stored is not None:
        past = FallbackPast(stored.past, written, clock) if written is not None else stored.past
        return Budgets(past, clock, rules, monitor.minimum_records, stored.days)
    assert written is not None, "the topic is the only source without Pinot"
    within = [rule for rule in rules if rule.long_seconds <= LONGEST_SECONDS]
    return Budgets(written, clock, within, monitor.minimum_records, 0) if within else None


def delivery_counts(settings: HeadraceSettings, clock: Clock) -> DeliveryCounts | None:
    """Build the object that counts the records delivered late during incidents.

    Returns None if Pinot is not used, or if its client is not installed.
    """
    stored = _stored_past(settings, clock) if _is_pinot_installed() else None
    return None if stored is None else DeliveryCounts(stored.past, clock, stored.days)


class _StoredPast(NamedTuple):
    """Past measurements in Pinot. `days`: number of days for which Pinot retains them."""

    past: PastMeasurements
    days: int


def _stored_past(settings: HeadraceSettings, clock: Clock) -> _StoredPast | None:
    """Return the past measurements in Pinot; None if Pinot is not used."""
    from monitor.adapters.pinot_measurements import PinotMeasurements
    from pinot.client import PinotClient
    from pinot.tables import MIRROR_METRICS

    if settings.monitor.measurements is MeasurementPlace.TOPIC:
        return None
    once = settings.pinot.model_copy(update={"attempts": 1})  # no retries: verdicts wait for the result
    past = PinotMeasurements(PinotClient(once), clock)
    return _StoredPast(past, settings.pinot.days_kept(MIRROR_METRICS))


def _measurements(
    settings: HeadraceSettings, clock: Clock, written: TopicMeasurements | None
) -> Measurements:
    """Return the reader of measurements in Pinot or in the metrics topic, as configured. Raises ConfigError.

    The metrics topic may also be the fallback for Pinot.
    """
    if settings.monitor.measurements is MeasurementPlace.TOPIC and written is not None:
        return written
    from monitor.adapters.pinot_measurements import PinotMeasurements
    from pinot.client import PinotClient

    stored = PinotMeasurements(PinotClient(settings.pinot), clock)
    return stored if written is None else FallbackMeasurements(stored, written, clock)


def _written(settings: HeadraceSettings, clock: Clock, *, has_pinot: bool) -> TopicMeasurements | None:
    """Return the reader of measurements in the metrics topic; None if the monitor does not use the topic.

    The topic is not used if only Pinot is configured, or if Pinot is available and the cluster of the topic
    is not configured. Raises InvalidRequest if the topic is required but its cluster is not configured;
    ConfigError if Pinot's client is required but not installed.
    """
    place, mirror = settings.monitor.measurements, settings.mirror
    wanted = " ".join(f"'{requirement}'" for requirement in sorted(requirements_of("monitor")))
    if place is MeasurementPlace.PINOT:
        if has_pinot:
            return None
        raise ConfigError(
            "monitor.measurements is pinot, but Pinot's client is not installed",
            advice=f"run pip install {wanted}, or set monitor.measurements to topic",
        )
    cluster = settings.clusters.get(mirror.metrics_cluster)
    if cluster is not None:
        is_instead = place is MeasurementPlace.EITHER and not has_pinot
        remark = f"Pinot's client is not installed ({wanted})" if is_instead else ""
        return TopicMeasurements(cluster, mirror.metrics_topic, clock, remark=remark)
    if place is MeasurementPlace.EITHER and has_pinot:
        return None
    raise InvalidRequest(
        f"mirror.metrics_cluster {mirror.metrics_cluster} is not configured",
        advice="add a section [clusters.NAME] for the cluster with the measurements",
    )
