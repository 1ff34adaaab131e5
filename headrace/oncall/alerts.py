"""Builds the monitor's alerts from the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from headrace.console.access.document import config_file
from headrace.settings import HeadraceSettings, load_settings
from mirror.adapters.system_clock import SystemClock
from mirror.errors import ConfigError
from mirror.loggers import get_logger
from monitor.adapters.receivers.alertmanager import Alertmanager
from monitor.adapters.receivers.mail import Mail
from monitor.adapters.receivers.webhook import Webhook
from monitor.alerts.alert import Style
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.conditions import Conditions
from monitor.alerts.deliveries.delivery import Delivery
from monitor.alerts.deliveries.messages import grouped_by
from monitor.alerts.deliveries.outbox import Outbox, Schedule
from monitor.alerts.deliveries.ports import Receiver
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.settings import AlertSettings, ReceiverSettings
from monitor.alerts.silence import Silence

_log = get_logger(__name__)

_MOST_POSTED: Final = 256
"""Maximum number of alerts per request to Alertmanager, as in Prometheus."""


def build_alerts(
    settings: HeadraceSettings,
    config: Path | None,
    at: str,
    metrics: AlertMetrics,
    may_tell: Callable[[], bool] = lambda: True,
) -> AlertDispatch:
    """Build the alerts of a service's monitor. Raises ConfigError, InvalidRequest.

    `at`: address of the service, by default the configured address. `may_tell`: returns whether this monitor
    is certainly the active monitor.
    """
    chosen, clock = settings.monitor.alerts, SystemClock()
    address = chosen.service_url.rstrip("/") or settings.service_address(at or settings.monitor.service)
    first = address.partition(",")[0]
    link = first if "://" in first else f"http://{first}"
    watched = {
        f"alertmanager/{name}" for name, alertmanager in chosen.alertmanagers.items() if alertmanager.watchdog
    }
    deliveries = [
        Delivery(name, receiver, outbox, clock, metrics, takes_watchdog=name in watched, may_tell=may_tell)
        for name, receiver, outbox in _receivers(chosen)
    ]
    return AlertDispatch(
        Conditions(chosen.patience()),
        Style(chosen.labels, chosen.runbook_url, link),
        watched_silences(config, chosen.silenced()),
        deliveries,
        clock,
        metrics,
    )


def _receivers(chosen: AlertSettings) -> list[tuple[str, Receiver, Outbox]]:
    """Build the alert receivers and their outboxes, each with its name in logs and metrics."""

    def outbox(settings: ReceiverSettings, pace: float, *, grouped: bool = True) -> Outbox:
        gather, most = chosen.gather_seconds, settings.most_retry_seconds
        if grouped:
            return Outbox(Schedule(gather, pace, most, chosen.queue_alerts), grouped_by(chosen.group_by))
        return Outbox(Schedule(0.0, pace, most, chosen.queue_alerts, _MOST_POSTED))

    found: list[tuple[str, Receiver, Outbox]] = []
    for name, manager in chosen.alertmanagers.items():
        box = outbox(manager, manager.refresh_seconds, grouped=False)
        found.append((f"alertmanager/{name}", Alertmanager(manager), box))
    for name, hook in chosen.webhooks.items():
        box = outbox(hook, hook.repeat_seconds)
        found.append((f"webhook/{name}", Webhook(name, hook, chosen.group_by), box))
    for name, mail in chosen.mail.items():
        found.append((f"mail/{name}", Mail(mail), outbox(mail, mail.repeat_seconds)))
    return found


def watched_silences(config: Path | None, known: Sequence[Silence]) -> Callable[[], Sequence[Silence]]:
    """Return a function that reads the alert silences from the settings file when the file has changed.

    The function reloads the file after a change, and returns the previous silences while the file is invalid.
    """
    file = config_file(config)
    state = _state_of(file)

    def silences() -> Sequence[Silence]:
        nonlocal known, state
        if (now := _state_of(file)) not in (None, state):
            state = now
            try:
                known = load_settings(config).monitor.alerts.silenced()
                _log.info("alert silences reloaded", silences=len(known))
            except ConfigError as error:
                _log.warning("alert silences not reloaded: invalid configuration", reason=str(error))
        return known

    return silences


def _state_of(file: Path | None) -> tuple[int, int, int] | None:
    """Return a fingerprint that changes when the file changes, or None if it does not exist."""
    try:
        found = file.stat() if file else None
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino) if found else None
