"""Runs a monitor within the leader, so that exactly one monitor of the service is active."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Protocol

from mirror.background_thread import BackgroundThread
from mirror.bulkheads import Bulkhead
from mirror.instance.health import Health
from mirror.loggers import get_logger
from mirror.model.reasons import reason_of
from mirror.ports import Clock

_log = get_logger(__name__)
PART: Final = "monitor"
"""Component of `/v1/health` on every instance with an enabled monitor.

A separate monitor process exits if an instance reports this component.
"""
_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 20.0
_AGAIN_SECONDS: Final = 30.0
"""Seconds before a failed monitor is started again."""


class RunningMonitor(Protocol):
    """A monitor with its own thread."""

    @property
    def failure(self) -> BaseException | None:
        """Error that ended the monitor, or None while it runs."""
        ...

    @property
    def sentence(self) -> str:
        """Current activity of the monitor in one sentence. Thread-safe."""
        ...

    def stop(self, deadline_seconds: float) -> None:
        """Stop the monitor and wait until it has ended, at most until the deadline."""
        ...


class LeaderMonitor(BackgroundThread):
    """Starts a monitor when the instance becomes leader, and stops it after losing leadership.

    `start_monitor`: builds and starts a monitor; called again later if it raises. Failures of the monitor are
    reported in health, and do not stop the instance.
    """

    def __init__(
        self,
        start_monitor: Callable[[], RunningMonitor],
        is_leading: Callable[[], bool],
        health: Health,
        clock: Clock,
    ) -> None:
        super().__init__("leader-monitor")
        self._start_monitor = start_monitor
        self._is_leading = is_leading
        self._health = health
        self._clock = clock
        self._running: RunningMonitor | None = None
        self._failed_at = -math.inf

    def start(self) -> None:
        """Start watching whether the instance is leader."""
        self._health.report(PART, True, "active only while this instance is leader")
        super().start()

    def run_once(self) -> None:
        """Start the monitor if this instance is leader, and stop it otherwise."""
        running, leads = self._running, self._is_leading()
        if running is not None and running.failure is not None:
            self._failed(running.failure)
        elif running is not None and not leads:
            self._end(running)
            self._health.report(PART, True, "active only while this instance is leader")
        elif running is not None:
            self._health.report(PART, True, running.sentence)
        elif leads and self._clock.monotonic() - self._failed_at >= _AGAIN_SECONDS:
            with Bulkhead(self._failed):
                self._running = self._start_monitor()
                self._health.report(PART, True, self._running.sentence)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.run_once()
        if self._running is not None:
            self._end(self._running)

    def _failed(self, error: BaseException) -> None:
        self._running = None
        self._failed_at = self._clock.monotonic()
        self._health.report(PART, False, f"the monitor does not run: {reason_of(error)}")
        _log.error("monitor failed", reason=reason_of(error))

    def _end(self, running: RunningMonitor) -> None:
        self._running = None
        running.stop(_END_SECONDS)
