"""Monitors, built from the settings. Pinot's client is imported where it is asked for: the monitor within an
instance does without the extra that brings it."""

from __future__ import annotations

from typing import NamedTuple

from api.fleet.lanes_now import LanesNow
from api.fleet.movements import FleetMovements
from api.services import Services
from headrace.console.client import RestClient
from headrace.errors import requirements_of
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import ConfigError, InvalidRequest
from mirror.model.sizing.freeze import read_freeze
from mirror.ports import Clock
from mirror.settings import KafkaCluster
from monitor.actions.policy import ActingPolicy
from monitor.adapters.control_service import ControlService, Instances
from monitor.adapters.leases import HeldLease
from monitor.adapters.rest_service import RestService
from monitor.adapters.topic_measurements import TopicMeasurements
from monitor.burn.rates import read_rule
from monitor.cycle import MonitorCycle
from monitor.fallback import FallbackMeasurements
from monitor.incidents import IncidentPolicy
from monitor.objectives.budgets import Budgets
from monitor.objectives.past import Past
from monitor.ports import Measurements, Service
from monitor.records.deliveries import DeliveryCounts
from monitor.settings import MeasurementPlace, MonitorSettings


def build_monitor(settings: HeadraceSettings, at: str) -> MonitorCycle:
    """A monitor of the service at `at`, or where the settings say. Raises InvalidRequest for an address that
    is none, ModuleNotFoundError without the extra."""
    address = settings.service_address(at or settings.monitor.service)
    service = RestService(RestClient(address, settings=settings.commands))
    return _monitor_of(service, settings, has_pinot=True)


def build_own_monitor(settings: HeadraceSettings, services: Services) -> MonitorCycle:
    """A monitor within an instance; without the extra it reads the metrics topic. Raises InvalidRequest,
    ConfigError."""
    service = ControlService(
        services.control,
        services.problems.all,
        services.preview,
        HeldLease(services.acting, services.control, services.status.name),
        Instances(FleetMovements(services), LanesNow(services).of),
        services.incidents,
    )
    return _monitor_of(service, settings, has_pinot=_is_pinot_installed())


def _is_pinot_installed() -> bool:
    try:
        import pinot.client  # noqa: F401 - whether it can be
    except ModuleNotFoundError:
        return False
    return True


def _monitor_of(service: Service, settings: HeadraceSettings, *, has_pinot: bool) -> MonitorCycle:
    clock, monitor = SystemClock(), settings.monitor
    measurements = _measurements(settings, clock, has_pinot=has_pinot)
    budgets = _budgets(settings, clock) if has_pinot else None
    return MonitorCycle(service, measurements, _policy(monitor), clock, monitor.window_seconds, budgets)


def _policy(monitor: MonitorSettings) -> IncidentPolicy:
    acting = ActingPolicy(
        monitor.act,
        monitor.mode,
        monitor.most_a_day,
        monitor.most_a_day_of_each,
        tuple(read_freeze(one) for one in monitor.freeze_windows),
    )
    return IncidentPolicy(
        monitor.open_after, monitor.close_after, monitor.cooldown_seconds, acting, monitor.close_seconds
    )


def _budgets(settings: HeadraceSettings, clock: Clock) -> Budgets | None:
    """None where Pinot is not asked: the metrics topic does not reach far enough back."""
    monitor, stored = settings.monitor, _stored_past(settings, clock)
    if stored is None:
        return None
    rules = [read_rule(text) for text in monitor.burn_rates]
    return Budgets(stored.past, clock, rules, monitor.minimum_records, stored.days)


def delivery_counts(settings: HeadraceSettings, clock: Clock) -> DeliveryCounts | None:
    """What counts the records of incidents; None where Pinot is not asked, or its client not installed."""
    stored = _stored_past(settings, clock) if _is_pinot_installed() else None
    return None if stored is None else DeliveryCounts(stored.past, clock, stored.days)


class _StoredPast(NamedTuple):
    """`days`: for how long it is kept."""

    past: Past
    days: int


def _stored_past(settings: HeadraceSettings, clock: Clock) -> _StoredPast | None:
    """None where Pinot is not asked."""
    from monitor.adapters.pinot_measurements import PinotMeasurements
    from pinot.client import PinotClient
    from pinot.tables import MIRROR_METRICS

    if settings.monitor.measurements is MeasurementPlace.TOPIC:
        return None
    once = settings.pinot.model_copy(update={"attempts": 1})  # verdicts wait for it
    past = PinotMeasurements(PinotClient(once), clock)
    return _StoredPast(past, settings.pinot.days_kept(MIRROR_METRICS))


def _measurements(settings: HeadraceSettings, clock: Clock, *, has_pinot: bool) -> Measurements:
    """Raises InvalidRequest when the cluster of the metrics topic is not in the settings, ConfigError for a
    Pinot that cannot be asked."""
    place, mirror = settings.monitor.measurements, settings.mirror
    cluster = settings.clusters.get(mirror.metrics_cluster)
    if not has_pinot:
        wanted = " ".join(f"'{one}'" for one in sorted(requirements_of("monitor")))
        if place is MeasurementPlace.PINOT:
            raise ConfigError(
                "monitor.measurements is pinot, and its client is not installed",
                advice=f"pip install {wanted}, or let it be topic",
            )
        remark = "" if place is MeasurementPlace.TOPIC else f"Pinot's client is not installed ({wanted})"
        return _written(settings, cluster, clock, remark)
    if place is MeasurementPlace.TOPIC:
        return _written(settings, cluster, clock)
    from monitor.adapters.pinot_measurements import PinotMeasurements
    from pinot.client import PinotClient

    stored = PinotMeasurements(PinotClient(settings.pinot), clock)
    if place is MeasurementPlace.PINOT or cluster is None:
        return stored
    return FallbackMeasurements(stored, _written(settings, cluster, clock), clock)


def _written(
    settings: HeadraceSettings, cluster: KafkaCluster | None, clock: Clock, remark: str = ""
) -> TopicMeasurements:
    """Raises InvalidRequest."""
    mirror = settings.mirror
    if cluster is None:
        raise InvalidRequest(
            f"mirror.metrics_cluster {mirror.metrics_cluster} is not in the settings",
            advice="add [clusters.NAME] for the cluster that holds the measurements",
        )
    return TopicMeasurements(cluster, mirror.metrics_topic, clock, remark=remark)
