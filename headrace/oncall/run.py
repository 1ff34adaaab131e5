"""A running monitor with its alerts, canaries and stored incidents."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from headrace.clusters.directory import directory_of
from headrace.oncall.alerts import build_alerts
from headrace.oncall.canaries import probes_of
from headrace.oncall.incidents import build_incidents
from headrace.settings import HeadraceSettings
from mirror.adapters.system_clock import SystemClock
from mirror.coordination.topic_retirement import Retirement
from mirror.errors import HeadraceError
from mirror.jobs.audits.summary import TopicAudit
from mirror.loggers import get_logger
from mirror.model.capacity.advice import Advice
from monitor.alerts.alert_metrics import AlertMetrics
from monitor.alerts.audits import AuditWatch
from monitor.alerts.canaries import canary_alerts
from monitor.alerts.deliveries.standstill import PauseDetector
from monitor.alerts.dispatch import AlertDispatch
from monitor.alerts.resize_advice import READ_SECONDS, ResizeWatch
from monitor.alerts.retirements import retirement_alerts
from monitor.canary.canary_watch import CanaryWatch, Paths
from monitor.cycle import LoopEnd, MonitorCycle, MonitorLoop
from monitor.records.keeper import IncidentKeeper

_log = get_logger(__name__)
_STOP_SECONDS: Final = 15.0
_LEAVE: Final = "exiting: the instances of the service have their own monitor (monitor.enabled)"
_ADVICE: Final = "to use this monitor, set monitor.enabled = false for every instance and restart them"


class MonitoredService(NamedTuple):
    """Objects through which a monitor reads and changes the service.

    `read_advice`: returns the latest sizing advice. `canaries`: returns the paths of its canaries. `audits`:
    returns the continuous audits of its lanes, and whether all instances responded. `retirements`: returns
    the retirements in progress.
    """

    cycle: MonitorCycle
    read_advice: Callable[[], Advice | None]
    canaries: Paths
    audits: Callable[[], tuple[Sequence[TopicAudit], bool]]
    retirements: Callable[[], Sequence[Retirement]]


class MonitorTerm:
    """Evaluations, alerts, canaries and stored incidents while a monitor is the active one.

    `at`: address of the service for links, by default the configured address. Raises ConfigError,
    InvalidRequest, NotFound.
    """

    def __init__(
        self,
        settings: HeadraceSettings,
        config: Path | None,
        at: str,
        service: MonitoredService,
        metrics: AlertMetrics,
    ) -> None:
        self.cycle = cycle = service.cycle
        self._metrics = metrics
        self._standstill = PauseDetector(SystemClock())
        alerts = build_alerts(settings, config, at, metrics, lambda: self._standstill.is_settled)
        resize = ResizeWatch(
            service.read_advice,
            settings.monitor.alerts.resize_lead_seconds,
            min(READ_SECONDS, settings.assigner.advice.interval_seconds),
        )
        canaries = CanaryWatch(service.canaries, probes_of(directory_of(settings)), metrics.canaries.show)
        alerts.watch(
            resize.alerts,
            lambda now_ms: [*canary_alerts(canaries.states, now_ms, alerts.firing)],
            AuditWatch(service.audits).alerts,
            lambda _: [*retirement_alerts(service.retirements())],
        )
        is_kept = bool(settings.monitor.incidents_topic)
        self._keeper = build_incidents(settings, cycle, alerts) if is_kept else None
        kept = [self._keeper] if self._keeper is not None else []
        # Alerts read the canaries, and the keeper reads the alerts.
        self._listeners: list[CanaryWatch | AlertDispatch | IncidentKeeper] = [canaries, alerts, *kept]
        interval = settings.monitor.interval_seconds
        self._loop = MonitorLoop(cycle, interval, self._listeners, self._is_shut_out, self._standstill)

    def run(self) -> LoopEnd:
        """Evaluate until `stop` is called or another monitor becomes active.

        At the end, the pending alerts of each receiver are sent once more.
        """
        self._standstill.start()
        for listener in self._listeners:
            listener.start()
        try:
            ended = self._loop.run()
            if ended is LoopEnd.OUSTED and self._keeper is not None:
                self._keeper.oust()
            return ended
        finally:
            for listener in reversed(self._listeners):
                listener.stop(_STOP_SECONDS)
            self._standstill.stop(_STOP_SECONDS)
            self._metrics.retire()

    def _is_shut_out(self) -> bool:
        """Return whether another monitor now writes the stored incidents.

        If this monitor was fenced but still has the lease, it writes again: the broker has fenced it only
        after an interrupted write.
        """
        if self._keeper is None or not self._keeper.is_shut_out:
            return False
        try:
            if self.cycle.held_by():
                return True
        except HeadraceError as error:
            _log.warning("cannot confirm the lease of the monitor", reason=str(error))
            return False
        self._keeper.reclaim()
        return False

    def stop(self) -> None:
        """Request that `run` ends."""
        self._loop.stop()


class MonitorRun:
    """A monitor that becomes active when no other monitor is, and waits again if another one takes over.

    `build`: returns a new term; `run` raises the errors of `build`.
    """

    def __init__(self, build: Callable[[], MonitorTerm], interval_seconds: float) -> None:
        self._build = build
        self._interval = interval_seconds
        self._stopping = threading.Event()
        self._term = build()
        self._waits_for = ""

    @property
    def sentence(self) -> str:
        """Sentence about the current activity of the monitor, and about the source of measurements if that is
        the metrics topic."""
        if self._waits_for:
            return f"standby: {self._waits_for} is the active monitor"
        remark = self._term.cycle.remark
        return f"active{f', measurements from the metrics topic: {remark}' if remark else ''}"

    def run(self) -> None:
        """Run until `stop` is called or the service runs its own monitor."""
        ended = LoopEnd.OUSTED
        while ended is LoopEnd.OUSTED and self._is_next():
            ended = self._term.run()
            self._term.cycle.release()
            if ended is LoopEnd.OUSTED:
                self._term = self._build()
        if ended is LoopEnd.LEFT:
            _log.warning(_LEAVE, advice=_ADVICE)

    def stop(self) -> None:
        """Request that `run` ends. May be called from a signal handler, and before `run`."""
        self._stopping.set()
        self._term.stop()

    def _is_next(self) -> bool:
        """Wait until no other monitor is active. Return False if the run must end.

        If the service is unreachable, the monitor starts anyway, and its evaluations report the problem.
        """
        pause = 0.0
        while not self._stopping.wait(pause):
            pause = self._interval
            try:
                if self._term.cycle.is_judged_elsewhere():
                    _log.warning(_LEAVE, advice=_ADVICE)
                    return False
                other = self._term.cycle.held_by()
            except HeadraceError:
                return True
            if not other:
                self._waits_for = ""
                return True
            if other != self._waits_for:
                _log.warning("standing by: another monitor is active", monitor=other)
            self._waits_for = other
        return False
