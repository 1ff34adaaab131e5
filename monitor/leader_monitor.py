"""A monitor within an instance: it runs while the instance leads, so that one of all instances judges."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Final, Protocol

import structlog

from mirror.errors import reason_of
from mirror.instance.health import Health
from mirror.ports import Clock

_log = structlog.get_logger(__name__)
PART: Final = "monitor"
"""Of the health of every instance whose monitor is enabled. Other monitors leave the judging to it."""
_LOOK_SECONDS: Final = 0.5
_END_SECONDS: Final = 20.0
_AGAIN_SECONDS: Final = 30.0
"""After a monitor that could not be built, or ended."""


class RunningMonitor(Protocol):
    """A monitor with its own thread."""

    @property
    def failure(self) -> BaseException | None:
        """What ended it by itself; None while it runs."""
        ...

    @property
    def sentence(self) -> str:
        """What it does now; safe from any thread."""
        ...

    def stop(self, deadline_seconds: float) -> None:
        """End it, and wait for that up to the deadline."""
        ...


class LeaderMonitor:
    """Starts a monitor when the instance begins to lead, and stops it when it does not any more.

    `start_monitor` builds and starts one; it may raise, and is called again after a while. What goes wrong
    with a monitor is part of the health, and never ends the instance.
    """

    def __init__(
        self,
        start_monitor: Callable[[], RunningMonitor],
        is_leading: Callable[[], bool],
        health: Health,
        clock: Clock,
    ) -> None:
        self._start_monitor = start_monitor
        self._is_leading = is_leading
        self._health = health
        self._clock = clock
        self._running: RunningMonitor | None = None
        self._failed_at = -math.inf
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-monitor", daemon=True)

    def start(self) -> None:
        """Begin to look whether the instance leads."""
        self._health.report(PART, True, "it judges while this instance leads")
        self._thread.start()

    def stop(self, deadline_seconds: float) -> None:
        """End what runs. May be called where it was never started."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(deadline_seconds)

    def look(self) -> None:
        """Start or stop a monitor, as it is wanted now."""
        running, leads = self._running, self._is_leading()
        if running is not None and running.failure is not None:
            self._failed(running.failure)
        elif running is not None and not leads:
            self._end(running)
            self._health.report(PART, True, "it judges while this instance leads")
        elif running is not None:
            self._health.report(PART, True, running.sentence)
        elif leads and self._clock.monotonic() - self._failed_at >= _AGAIN_SECONDS:
            try:
                self._running = self._start_monitor()
            except Exception as error:  # noqa: BLE001 - the bulkhead between the monitor and the mirror
                self._failed(error)
            else:
                self._health.report(PART, True, self._running.sentence)

    def _run(self) -> None:
        while not self._stopping.wait(_LOOK_SECONDS):
            self.look()
        if self._running is not None:
            self._end(self._running)

    def _failed(self, error: BaseException) -> None:
        self._running = None
        self._failed_at = self._clock.monotonic()
        self._health.report(PART, False, f"nothing is judged: {reason_of(error)}")
        _log.error("the monitor does not run", reason=reason_of(error))

    def _end(self, running: RunningMonitor) -> None:
        self._running = None
        running.stop(_END_SECONDS)
