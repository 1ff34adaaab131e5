"""Rolls up the samples of all partitions by hour, for forecasts and what-if analyses.

Rollups are kept for weeks. An hour is rolled up whenever Pinot has more samples than its rollup counts: the
current hour, an hour with late samples, or an hour whose rollup was interrupted. The rollup therefore needs
no state between runs. A repeated row replaces the first row, because both have the same key. If an hour has
fewer samples than its rollup, retention has deleted samples, and the rollup is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror.errors import HeadraceError
from mirror.loggers import get_logger
from mirror.ports import Clock
from pinot.client import PinotClient
from pinot.partitions import rollups
from pinot.partitions.rollups import HOUR_MS, Hour
from pinot.time_range import TimeRange
from pmp.ports import HourSink
from pmp.rounds import RoundService

_log = get_logger(__name__)
_AHEAD_MS: Final = HOUR_MS


def hours_to_roll_up(sampled: Mapping[Hour, int], rolled_up: Mapping[Hour, int]) -> list[Hour]:
    """Return the hours whose rollups do not include all samples, oldest first. Pure."""
    behind = [hour for hour, samples in sampled.items() if samples > rolled_up.get(hour, 0)]
    return sorted(behind, key=lambda hour: (hour.hour_ms, hour.cluster))


class Rollup(RoundService):
    """Service that rolls up the samples of each hour; `round` does the work of one interval."""

    def __init__(
        self, client: PinotClient, sink: HourSink, clock: Clock, interval_seconds: float, horizon_hours: int
    ) -> None:
        super().__init__("rollup", interval_seconds)
        self._client = client
        self._sink = sink
        self._clock = clock
        self._horizon_ms = horizon_hours * HOUR_MS
        self.rows_written = 0

    def stop(self, deadline_seconds: float) -> None:
        """Stop after the current page, but wait at most until the deadline. Idempotent."""
        super().stop(deadline_seconds)
        self._sink.close()

    def round(self) -> list[Hour]:
        """Roll up all hours whose rollups do not include all samples, and return them. Raises the errors of
        Pinot and Kafka."""
        now_ms = self._clock.now_ms()
        since = (now_ms - self._horizon_ms) // HOUR_MS * HOUR_MS
        when = TimeRange(since, now_ms + _AHEAD_MS)
        sampled = rollups.sampled_hours(self._client, when)
        behind = hours_to_roll_up(sampled, rollups.rolled_up_hours(self._client, when))
        for hour in behind:
            for page in rollups.hour_pages(self._client, hour):
                if self._stopping.is_set():
                    return behind
                self._sink.write(page)
                self.rows_written += len(page)
        return behind

    def _ends(self, error: HeadraceError) -> bool:
        return error.fatal

    def _work(self) -> None:
        behind = self.round()
        _log.debug("samples rolled up", hours=len(behind), rows=self.rows_written)
