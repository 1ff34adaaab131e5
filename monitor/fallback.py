"""Measurements from a preferred source, with a fallback while it is unavailable."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final, TypeVar

from mirror.errors import AnalyticsError, Unreachable
from mirror.loggers import get_logger
from mirror.ports import Clock
from monitor.burn.pieces import TimeRangePiece
from monitor.latency import Observations, Source
from monitor.objectives.late_times import LateTopics
from monitor.objectives.past import PastMeasurements, TopicLatencySums
from monitor.ports import Measurements

_log = get_logger(__name__)
_T = TypeVar("_T")
_ASK_AGAIN_SECONDS: Final = 60.0
"""Seconds before the preferred source of measurements is retried. A read from an unavailable server takes the
full timeout, and delays the verdicts."""


class _Preference:
    """Chooses between two sources of measurements: the second one for a minute after the first has failed."""

    def __init__(self, subject: str, clock: Clock) -> None:
        self.reason = ""
        """Reason why the second source is used, or an empty string."""
        self._subject = subject
        self._clock = clock
        self._failed_at = -math.inf

    def answer(self, first: Callable[[], _T], second: Callable[[], _T]) -> _T:
        """Return the result of `first` or, if it fails, of `second`. Raises the error of `second`."""
        if self._clock.monotonic() - self._failed_at >= _ASK_AGAIN_SECONDS:
            try:
                found = first()
            except (Unreachable, AnalyticsError) as error:
                self._failed_at = self._clock.monotonic()
                self._note(str(error))
            else:
                self._note("")
                return found
        return second()

    def _note(self, reason: str) -> None:
        if reason and not self.reason:
            _log.warning("reading the metrics topic instead of Pinot", for_what=self._subject, reason=reason)
        elif self.reason and not reason:
            _log.info("reading Pinot again", for_what=self._subject)
        self.reason = reason


class FallbackMeasurements:
    """Reads measurements from `first`, or from `second` for a minute after `first` has failed.

    Implements `monitor.ports.Measurements`.
    """

    def __init__(self, first: Measurements, second: Measurements, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._preference = _Preference("measurements", clock)

    @property
    def remark(self) -> str:
        """Reason why the second source is in use; empty if it is not."""
        return self._preference.reason

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """Return the measurements of the window. Raises the error of `second` if both fail."""
        return self._preference.answer(
            lambda: self._first.observe(window_seconds, least_ms, together),
            lambda: self._second.observe(window_seconds, least_ms, together),
        )

    def late(self, sources: Collection[Source], since_ms: int, least_ms: int) -> LateTopics | None:
        """Return the records since `since_ms` that were late. Raises the error of `second` if both fail."""
        return self._preference.answer(
            lambda: self._first.late(sources, since_ms, least_ms),
            lambda: self._second.late(sources, since_ms, least_ms),
        )


class FallbackPast:
    """Reads past measurements from one of two sources like `FallbackMeasurements`.

    Implements `monitor.objectives.past.PastMeasurements`.
    """

    def __init__(self, first: PastMeasurements, second: PastMeasurements, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._preference = _Preference("error budgets", clock)

    def past(
        self, period: TimeRangePiece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicLatencySums:
        """Return the measurements of a period. Raises the error of `second` if both fail."""
        return self._preference.answer(
            lambda: self._first.past(period, milliseconds, together),
            lambda: self._second.past(period, milliseconds, together),
        )
