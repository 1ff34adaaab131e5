"""Measurements from one place, and from another while that does not answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Final, TypeVar

import structlog

from mirror.errors import AnalyticsError, Unreachable
from mirror.ports import Clock
from monitor.burn.pieces import Piece
from monitor.latency import Observations, Source
from monitor.objectives.past import Past, TopicSums
from monitor.ports import Measurements

_log = structlog.get_logger(__name__)
_T = TypeVar("_T")
_ASK_AGAIN_SECONDS: Final = 60.0
"""A server that is away costs its whole time-out at every attempt, and verdicts must not wait for it."""


class _Preference:
    """The first of two answers, or the second for a minute after the first has failed."""

    def __init__(self, what: str, clock: Clock) -> None:
        self.reason = ""
        """Why the second is asked; empty while the first answers."""
        self._what = what
        self._clock = clock
        self._failed_at = -math.inf

    def answer(self, first: Callable[[], _T], second: Callable[[], _T]) -> _T:
        """Raises what `second` raises, when neither answers."""
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
            _log.warning("the metrics topic is read", for_what=self._what, reason=reason)
        elif self.reason and not reason:
            _log.info("Pinot is asked again", for_what=self._what)
        self.reason = reason


class FallbackMeasurements:
    """Asks `first`; while that does not answer, `second`, and `first` again a minute after it failed.

    Satisfies `monitor.ports.Measurements`.
    """

    def __init__(self, first: Measurements, second: Measurements, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._preference = _Preference("measurements", clock)

    @property
    def remark(self) -> str:
        """Why `second` is asked; empty while `first` answers."""
        return self._preference.reason

    def observe(
        self, window_seconds: float, least_ms: int = 0, together: Collection[Source] = ()
    ) -> Observations:
        """What was measured in the window. Raises what `second` raises, when neither answers."""
        return self._preference.answer(
            lambda: self._first.observe(window_seconds, least_ms, together),
            lambda: self._second.observe(window_seconds, least_ms, together),
        )


class FallbackPast:
    """As `FallbackMeasurements`, of pieces of the past. Satisfies `monitor.objectives.past.Past`."""

    def __init__(self, first: Past, second: Past, clock: Clock) -> None:
        self._first = first
        self._second = second
        self._preference = _Preference("error budgets", clock)

    def past(
        self, piece: Piece, milliseconds: Collection[int], together: Collection[Source] = ()
    ) -> TopicSums:
        """What was measured in the piece. Raises what `second` raises, when neither answers."""
        return self._preference.answer(
            lambda: self._first.past(piece, milliseconds, together),
            lambda: self._second.past(piece, milliseconds, together),
        )
