"""A monitor with all that hears of its turns, as one thing that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from headrace.oncall.alerts import build_alerts
from headrace.oncall.incidents import build_incidents
from headrace.settings import HeadraceSettings
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.metrics import AlertMetrics
from monitor.cycle import MonitorCycle, MonitorLoop
from monitor.records.keeper import IncidentKeeper

_STOP_SECONDS: Final = 15.0


class MonitorRun:
    """Turns, alerts and kept incidents. `at`: address of the service for links, or as the settings say.

    Raises ConfigError, InvalidRequest, NotFound.
    """

    def __init__(
        self,
        settings: HeadraceSettings,
        config: Path | None,
        at: str,
        cycle: MonitorCycle,
        metrics: AlertMetrics,
    ) -> None:
        alerts = build_alerts(settings, config, at, metrics)
        self._listeners: list[AlertDispatch | IncidentKeeper] = [alerts]
        if settings.monitor.incidents_topic:
            self._listeners.append(build_incidents(settings, cycle, alerts))
        self._loop = MonitorLoop(cycle, settings.monitor.interval_seconds, self._listeners)

    def run(self) -> None:
        """Until `stop`; what waits to be delivered is tried once more then."""
        for one in self._listeners:
            one.start()
        try:
            self._loop.run()
        finally:
            for one in reversed(self._listeners):
                one.stop(_STOP_SECONDS)

    def stop(self) -> None:
        """End it soon. May be called from a signal handler, and before it runs."""
        self._loop.stop()
