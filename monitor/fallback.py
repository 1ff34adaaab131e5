"""Measurements from one place, and from another while that does not answer."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Final

import structlog

from mirror.errors import AnalyticsError, Unreachable
from mirror.ports import Clock
from monitor.latency import Observations, Source
from monitor.ports import Measurements

_log = structlog.get_logger(__name__)
_ASK_AGAIN_SECONDS: Final = 60.0
"""A server that is away costs its whole time-out at every attempt, and verdicts must not wait for it."""


class FallbackMeasurements:
    """Asks `first`; while that does not answer, `second`, and `first` again a minute after it failed.

    Satisfies `monitor.ports.Measurements`.
    """

    def __init__(self, first: Measurements, second: Measurements, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._clock = clock
        self._reason = ""
        self._failed_at = -math.inf

    @property
    def remark(self) -> str:
        """Why `second` is asked; empty while `first` answers."""
        return self._reason

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """What was measured in the window. Raises what `second` raises, when neither answers."""
        if self._clock.monotonic() - self._failed_at >= _ASK_AGAIN_SECONDS:
            try:
                found = self._first.observe(window_seconds, least_ms, together)
            except (Unreachable, AnalyticsError) as error:
                self._failed_at = self._clock.monotonic()
                self._note(str(error))
            else:
                self._note("")
                return found
        return self._second.observe(window_seconds, least_ms, together)

    def _note(self, reason: str) -> None:
        if reason and not self._reason:
            _log.warning("measurements are read from the metrics topic", reason=reason)
        elif self._reason and not reason:
            _log.info("measurements are read from Pinot again")
        self._reason = reason
