"""The monitor within an instance, built from the settings.

What it is made of is imported where it begins: an instance that does not lead needs nothing of it.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from api.services import Services
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.instance.health import Health
from monitor.alerts.metrics import AlertMetrics
from monitor.leader_monitor import LeaderMonitor

if TYPE_CHECKING:
    from headrace.oncall.run import MonitorRun, MonitorTerm


class OwnMonitor:
    """Builds one that runs while the instance leads. `address`: of its REST, for the links of alerts;
    `registry`: what `/metrics` shows."""

    def __init__(
        self,
        settings: HeadraceSettings,
        config: Path | None,
        address: str,
        services: Services,
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._config = config
        self._address = address
        self._services = services
        self._metrics = AlertMetrics(registry)

    def within(self, health: Health) -> LeaderMonitor:
        """One that says how it is there."""
        return LeaderMonitor(self._start, lambda: self._services.status.is_leading, health, SystemClock())

    def _start(self) -> MonitorThread:
        from headrace.oncall.run import MonitorRun

        return MonitorThread(MonitorRun(self._term, self._settings.monitor.interval_seconds))

    def _term(self) -> MonitorTerm:
        from headrace.oncall.monitors import build_own_monitor
        from headrace.oncall.run import MonitorTerm

        cycle = build_own_monitor(self._settings, self._services)
        advice = self._services.newest_advice
        return MonitorTerm(self._settings, self._config, self._address, cycle, self._metrics, advice)


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

    @property
    def sentence(self) -> str:
        """What it does."""
        return self._monitor.sentence

    def stop(self, deadline_seconds: float) -> None:
        """End it."""
        self._monitor.stop()
        self._thread.join(deadline_seconds)

    def _run(self) -> None:
        try:
            self._monitor.run()
        except Exception as error:  # noqa: BLE001 - LeaderMonitor reports it, and the instance continues
            self._failure = error
