"""Builds the monitor that runs inside the leader.

The modules of the monitor are imported when it starts, because other instances do not need them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry

from api.services import Services
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.background_thread import BackgroundThread
from mirror.instance.health import Health
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.leader_monitor import LeaderMonitor

if TYPE_CHECKING:
    from headrace.oncall.run import MonitorRun, MonitorTerm


class OwnMonitor:
    """Builds monitors that each run while this instance is the leader.

    `address`: REST address of the instance, for links in alerts. `registry`: metrics registry of `/metrics`.
    """

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
        """Return a monitor that reports its state as a component of `health`."""
        return LeaderMonitor(self._start, lambda: self._services.status.is_leading, health, SystemClock())

    def _start(self) -> MonitorThread:
        from headrace.oncall.run import MonitorRun

        return MonitorThread(MonitorRun(self._term, self._settings.monitor.interval_seconds))

    def _term(self) -> MonitorTerm:
        from api.resources.movement import FleetAudits
        from headrace.oncall.canaries import own_paths
        from headrace.oncall.monitors import build_own_monitor
        from headrace.oncall.run import MonitoredService, MonitorTerm

        services = self._services
        cycle = build_own_monitor(self._settings, services)
        service = MonitoredService(
            cycle,
            services.newest_advice,
            own_paths(services.control),
            FleetAudits(services),
            services.retirements.all,
        )
        return MonitorTerm(self._settings, self._config, self._address, service, self._metrics)


class MonitorThread(BackgroundThread):
    """A monitor in its own thread. Implements `monitor.leader_monitor.RunningMonitor`."""

    def __init__(self, monitor: MonitorRun) -> None:
        super().__init__("monitor")
        self._monitor = monitor
        self.failure: BaseException | None = None
        self.start()

    @property
    def sentence(self) -> str:
        """Sentence about the current activity of the monitor."""
        return self._monitor.sentence

    def wake(self) -> None:
        """Stop the monitor, and thereby the thread."""
        self._monitor.stop()

    def _run(self) -> None:
        try:
            self._monitor.run()
        except Exception as error:  # noqa: BLE001 - LeaderMonitor reports it, and the instance continues
            self.failure = error
