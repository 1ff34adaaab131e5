"""The monitor within an instance, built from the settings. Needs the extra `monitor`."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

from api.services import Services
from headrace.analytics import build_own_monitor
from headrace.oncall.run import MonitorRun
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.instance.health import Health
from monitor.alerts.metrics import AlertMetrics
from monitor.leader_monitor import LeaderMonitor


def leader_monitor(
    settings: HeadraceSettings, config: Path | None, address: str, services: Services, health: Health
) -> LeaderMonitor:
    """One that runs while the instance leads; `address`: of its REST, for the links of alerts."""
    start = partial(_started, settings, config, address, services, AlertMetrics())
    return LeaderMonitor(start, lambda: services.status.is_leading, health, SystemClock())


def _started(
    settings: HeadraceSettings, config: Path | None, address: str, services: Services, metrics: AlertMetrics
) -> MonitorThread:
    cycle = build_own_monitor(settings, services)
    return MonitorThread(MonitorRun(settings, config, address, cycle, metrics))


class MonitorThread:
    """A monitor in a thread of its own. Satisfies `monitor.leader_monitor.RunningMonitor`."""

    def __init__(self, monitor: MonitorRun) -> None:
        self._monitor = monitor
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="monitor", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> BaseException | None:
        """What ended it by itself."""
        return self._failure

    def stop(self, deadline_seconds: float) -> None:
        """End it."""
        self._monitor.stop()
        self._thread.join(deadline_seconds)

    def _run(self) -> None:
        try:
            self._monitor.run()
        except Exception as error:  # noqa: BLE001 - LeaderMonitor reports it, and the instance continues
            self._failure = error
